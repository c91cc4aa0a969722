// Sets the chosen theme before the page is drawn, so that it does not flash.
(() => {
  const chosen = localStorage.getItem("jobledger-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

// What the pages do in the browser: local times, countdowns, the live stream, the plot, and the theme.
"use strict";
(() => {
  const base = document.documentElement.dataset.base || "";
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  const span = (seconds) => {
    const whole = Math.abs(Math.round(seconds));
    if (whole < 60) return `${whole}s`;
    if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
    return `${Math.floor(whole / 86400)}d ${Math.floor((whole % 86400) / 3600)}h`;
  };

  const showTimes = () => {
    const now = Date.now();
    for (const time of all("time[datetime]")) {
      const at = new Date(time.dateTime);
      if ("relative" in time.dataset) {
        const away = (at - now) / 1000;
        time.textContent = Math.abs(away) < 1 ? "now" : away > 0 ? `in ${span(away)}` : `${span(away)} ago`;
      } else if (!time.dataset.shown) {
        time.textContent = local.format(at);
        time.dataset.shown = "yes";
      }
    }
    for (const lease of all("[data-countdown]")) {
      const left = (new Date(lease.dataset.countdown) - now) / 1000;
      lease.textContent = left > 0 ? `${span(left)} left` : `ran out ${span(left)} ago`;
      lease.classList.toggle("out", left <= 0);
    }
  };

  const drawPlot = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const inks = ["--accent", "--good", "--bad"].map(colour);
    for (const figure of all("figure.plot:empty")) {
      const data = figure.dataset.lines ? JSON.parse(figure.dataset.lines) : null;
      const [times, ...values] = data ? [data.at, ...Object.values(data.lines)] : JSON.parse(figure.dataset.points);
      const labels = data ? Object.keys(data.lines) : ["done"];
      const grid = { stroke: colour("--line"), width: 1 };
      const axis = { stroke: colour("--dim"), grid, ticks: grid };
      const line = (label, place) => ({ label, stroke: inks[place], width: 2, points: { show: !data && times.length < 40 } });
      const options = {
        width: Math.max(280, figure.clientWidth), height: 150, legend: { show: Boolean(data) }, cursor: { y: false },
        series: [{}, ...labels.map(line)],
        axes: [axis, { ...axis, size: 60 }],
        scales: data ? { y: { range: (_, __, most) => [0, Math.max(1, most)] } } : {},
      };
      new uPlot(options, [times, ...values], figure);
    }
  };

  // One stream for a page: the job's own, or the feed of all. The browser resumes it behind the last event it saw.
  let waiting = null;
  const announce = () => {
    if (waiting) return;
    waiting = setTimeout(() => {
      waiting = null;
      document.body.dispatchEvent(new CustomEvent("jobledger:changed"));
      const controls = document.getElementById("controls");
      const isBusy = controls && (controls.contains(document.activeElement) || controls.querySelector(".control[open]"));
      if (controls && !isBusy) document.body.dispatchEvent(new CustomEvent("jobledger:controls"));
    }, 250);
  };
  const listen = () => {
    const job = document.querySelector("[data-job]");
    const feed = document.querySelector("[data-feed]");
    if (!job && !feed) return;
    const url = job
      ? `${base}/api/v1/jobs/${encodeURIComponent(job.dataset.job)}/events?after=${job.dataset.sequence}`
      : `${base}/api/v1/feed?start=now`;
    const stream = new EventSource(url);
    stream.onmessage = announce;
    stream.addEventListener("reset", announce);
    window.addEventListener("pagehide", () => stream.close());
  };

  const refresh = () => { showTimes(); drawPlot(); };
  document.addEventListener("htmx:after:swap", refresh);
  document.addEventListener("input", (event) => {
    if (event.target.id === "version") document.querySelector("output[for=version]").value = event.target.value;
  });
  document.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy && navigator.clipboard) navigator.clipboard.writeText(copy.dataset.copy).then(() => { copy.textContent = "Copied"; });
    if (event.target.closest("[data-theme-switch]")) {
      const root = document.documentElement;
      const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = isDark ? "light" : "dark";
      localStorage.setItem("jobledger-theme", root.dataset.theme);
    }
  });
  refresh();
  listen();
  setInterval(showTimes, 1000);
  // A renewal is no event, so a lease that is shown is looked at again while somebody looks.
  setInterval(() => { if (!document.hidden && document.querySelector("[data-countdown]")) announce(); }, 5000);
})();

"""Runs collected tests over code that was broken on purpose, each breakage in a forked process."""

from __future__ import annotations

import ast
import importlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol
from coverage import Coverage, CoverageData
from hypothesis import HealthCheck, Phase, settings

PYTEST_OPTIONS: Final = (
    *("-q", "--no-header", "--tb=no", "--timeout=60", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is imported before pytest looks for plugins
)
CPU_SECONDS_MIN: Final = 5
CPU_MARGIN: Final = 2
"""What a breakage may cost: so many times what its tests took without one, watched; watching costs as much again. An
endless loop is noticed by it."""
QUICK_SECONDS: Final = 0.5
"""A test that takes longer is not tried first for having noticed the breakage before."""
RAM: Final = "/dev/shm"  # noqa: S108  # a folder with a random name is made in it
"""Where nothing waits for a disk, on machines that have such a place."""

settings.register_profile(
    "broken code",
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
    phases=(Phase.explicit, Phase.generate),  # that a test fails is enough: nobody looks at the smallest example
    report_multiple_bugs=False,
)


@dataclass(frozen=True, slots=True)
class Breakage:
    """Something to break: a name for people, and what breaks it in the process that calls it."""

    label: str
    apply: Callable[[], None]
    lines: tuple[str, range] | None = None
    """The file and the lines that it changes, where only tests that run these can notice it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a breakage: the test that noticed it, or ``None`` where it survived."""

    label: str
    noticed_by: str | None

    @property
    def has_survived(self) -> bool:
        """Whether no test noticed it."""
        return self.noticed_by is None


class Trial:
    """A pytest plugin which, in the place of running the tests once, runs them once over each breakage.

    Only tests that get to what is broken are run, the quickest first, but for those that have just noticed something.
    All of them have to pass without any breakage.
    """

    def __init__(self, breakages: Sequence[Breakage], tell: Callable[[int, Verdict], None]) -> None:
        """Try these, and tell each verdict as soon as it is known."""
        self.breakages = breakages
        self.tell = tell
        self.control: str | None = "it was not run"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run everything in forks."""
        settings.load_profile("broken code")
        items = list(session.items)
        if not items:
            self.control = "there are no tests"
            return True
        root = session.config.rootpath
        reached: Reached = {}
        seconds: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as folder:
            watch = Watch(
                Path(folder) / "coverage", [each.lines[0] for each in self.breakages if each.lines is not None]
            )
            self.control = _noticed(items, root, watch=watch)
            if self.control is None:
                reached, seconds = watch.reached(), watch.seconds()
        if self.control is not None:
            return True
        items.sort(key=lambda item: seconds[item.nodeid])
        for number, breakage in enumerate(self.breakages):
            chosen = [item for item in items if _gets_there(item, breakage, reached)]
            limit = CPU_SECONDS_MIN + int(CPU_MARGIN * sum(seconds[item.nodeid] for item in chosen))
            noticed_by = _noticed(chosen, root, breakage.apply, limit) if chosen else None
            self.tell(number, Verdict(breakage.label, noticed_by))
            if noticed_by and seconds.get(noticed_by, QUICK_SECONDS) < QUICK_SECONDS:
                items.sort(key=lambda item: item.nodeid != noticed_by)
        return True


class Watch:
    """Notes, in the process that runs the tests, which of them runs which line, and for how long each of them runs.

    Its parent reads the notes.
    """

    def __init__(self, data: Path, files: Iterable[str]) -> None:
        """Watch these files, and keep the notes in files of its own."""
        self._data = str(data)
        self._times, self._began = data.with_suffix(".json"), dict[str, float]()
        self._files = sorted(set(files))
        self._watching = Coverage(data_file=self._data, include=self._files, config_file=False, messages=False)

    def start(self) -> None:
        """Watch from here on."""
        if self._files:
            self._watching.start()

    def turn_to(self, test: str) -> None:
        """Note what follows under this test."""
        self._began[test] = time.perf_counter()
        if self._files:
            self._watching.switch_context(test)

    def end(self) -> None:
        """Keep the notes."""
        if self._files:
            self._watching.stop()
            self._watching.save()
        ends = [*self._began.values(), time.perf_counter()][1:]
        took = {test: end - began for (test, began), end in zip(self._began.items(), ends, strict=True)}
        self._times.write_text(json.dumps(took), "utf-8")

    def seconds(self) -> dict[str, float]:
        """How long each test took, watched."""
        return dict(json.loads(self._times.read_text("utf-8")))

    def reached(self) -> Reached:
        """What was noted; nothing where every test may notice every breakage."""
        if not self._files:
            return {}
        found = CoverageData(self._data)
        found.read()
        return {
            (file, line): frozenset(tests)
            for file in found.measured_files()
            for line, tests in found.contexts_by_lineno(file).items()
        }


Reached = Mapping[tuple[str, int], frozenset[str]]
"""By file and line: the tests that run it."""


def _gets_there(item: pytest.Item, breakage: Breakage, reached: Reached) -> bool:
    if breakage.lines is None:
        return True
    file, lines = breakage.lines
    return any(item.nodeid in reached.get((file, line), ()) for line in lines)


def try_all(
    breakages: Sequence[Breakage], tests: Sequence[str], tell: Callable[[int, Verdict], None], root: Path
) -> str | None:
    """Try every breakage with these tests of a checkout; answers what is wrong with the tests themselves, if any."""
    trial = Trial(breakages, tell)
    with tempfile.TemporaryDirectory(dir=RAM if Path(RAM).is_dir() else None) as folder:
        options = [*PYTEST_OPTIONS, f"--rootdir={root}", f"--basetemp={folder}/pytest"]
        pytest.main([*tests, *options], plugins=[trial])
    return trial.control


def _noticed(
    items: Sequence[pytest.Item],
    root: Path,
    breaking: Callable[[], None] | None = None,
    cpu_seconds: int = resource.RLIM_INFINITY,
    watch: Watch | None = None,
) -> str | None:
    """The test that fails first, or what ended the process."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        _run(items, breaking, watch, telling)
    os.close(telling)
    with os.fdopen(told, encoding="utf-8") as answer:
        failed = answer.read()
    _, status = os.waitpid(child, 0)
    if not status:
        return None
    return failed or f"exit {os.waitstatus_to_exitcode(status)} in {root.name}"


def _run(items: Sequence[pytest.Item], breaking: Callable[[], None] | None, watch: Watch | None, telling: int) -> None:
    """Run tests until one fails; this process ends here, whatever happens."""
    try:
        if breaking is not None:
            breaking()
        if watch is not None:
            watch.start()
        for item in items:
            if watch is not None:
                watch.turn_to(item.nodeid)
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=None)):
                os.write(telling, item.nodeid.encode())
                os._exit(1)
        if watch is not None:
            watch.end()
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  # whatever a broken module does, its process says so and ends
        os.write(telling, f"{type(error).__name__}: {error}".encode())
    os._exit(2)


# Breaking a module that is imported already ---------------------------------------------------------------------------

PLAIN: Final = (str, int, float, timedelta, datetime, type(None))
"""Kinds of constants that are compared and replaced; anything else stays what it was."""


def replace_code(name: str, source: str | ast.Module) -> None:
    """Give the functions and plain constants of an imported module those of another source, wherever they went.

    Raises:
        NothingToReplaceError: the sources differ in something else, such as the shape of a class.
        Exception: the other source cannot even be imported.
    """
    module = importlib.import_module(name)
    changed = ModuleType(name)
    changed.__dict__.update(__file__=module.__file__, __package__=module.__package__, __spec__=module.__spec__)
    exec(compile(source, str(module.__file__), "exec", dont_inherit=True), changed.__dict__)  # noqa: S102  # it is our own code
    count = _replace_functions(dict(_functions(module, name)), dict(_functions(changed, name)))
    count += _replace_constants(module, changed, name)
    if not count:
        raise NothingToReplaceError(name)


class NothingToReplaceError(Exception):
    """A change that cannot be made while the module is in use."""


def _replace_functions(olds: Mapping[str, FunctionType], news: Mapping[str, FunctionType]) -> int:
    count = 0
    for path in olds.keys() & news.keys():
        old, new = olds[path], news[path]
        if _differs(old.__code__, new.__code__) and old.__code__.co_freevars == new.__code__.co_freevars:
            old.__code__ = new.__code__
            count += 1
        if _is_plain(new.__defaults__ or ()) and new.__defaults__ != old.__defaults__:
            old.__defaults__ = new.__defaults__
            count += 1
        mine = old.__kwdefaults__ or {}
        for key, value in (new.__kwdefaults__ or {}).items():
            if _is_plain(value) and value != mine[key]:
                mine[key] = value
                count += 1
    return count


def _differs(old: CodeType, new: CodeType) -> bool:
    if _shape(old) != _shape(new):
        return True
    for mine, other in zip(old.co_consts, new.co_consts, strict=True):
        if isinstance(mine, CodeType) and isinstance(other, CodeType):
            if _differs(mine, other):
                return True
        elif type(mine) is not type(other) or mine != other:
            return True
    return False


def _shape(code: CodeType) -> tuple[object, ...]:
    arguments = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    return code.co_code, code.co_names, len(code.co_consts), arguments


def _functions(namespace: Any, name: str, path: str = "") -> Iterator[tuple[str, FunctionType]]:
    """Every function of a module and its classes, below decorators too, with its path."""
    for key, value in list(vars(namespace).items()):
        if isinstance(value, type):
            if value.__module__ == name and value.__qualname__ == f"{path}.{key}".removeprefix("."):
                yield from _functions(value, name, f"{path}.{key}")
            continue
        for found in _unwrapped(value):
            if found.__module__ == name:
                yield f"{path}.{key}:{found.__qualname__}", found


def _unwrapped(value: Any) -> Iterator[FunctionType]:
    inner = value.fget if isinstance(value, property) else value
    while inner is not None:
        if isinstance(inner, FunctionType):
            yield inner
        inner = getattr(inner, "__dict__", {}).get("__wrapped__") or getattr(inner, "__func__", None)


def _replace_constants(module: Any, changed: Any, name: str) -> int:
    """Replace constants that differ: in the module, in its classes, and where they were imported by name."""
    count = 0
    for key, value in list(vars(changed).items()):
        old = vars(module).get(key)
        if isinstance(value, type) and value.__module__ == name and isinstance(old, type):
            for inner, constant in list(vars(value).items()):
                if not inner.startswith("__") and _is_plain(constant) and vars(old).get(inner) != constant:
                    setattr(old, inner, constant)
                    count += 1
        elif not key.startswith("__") and _is_plain(value) and old != value:
            for other in list(sys.modules.values()):
                if getattr(other, "__name__", "").startswith("jobledger") and vars(other).get(key) == old:
                    setattr(other, key, value)
                    count += 1
    return count


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(each) for each in value)
    return isinstance(value, PLAIN)

"""The habits of this code base that no linter checks, each with a planted violation that it must catch.

A rule about files is a function from a path and a text to the problems in it. A failure names the place and the rule.
"""

import ast
import inspect
import io
import os
import re
import sys
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

import jobledger

ROOT = Path(__file__).resolve().parent.parent
SOURCE_FOLDERS = ("adapters", "domain", "projections", "src")
FOLDERS = (*SOURCE_FOLDERS, "docs", "examples", "scripts", "tests")
LINKED = ("adapters", "domain", "projections")
PURE = ("domain", "projections")

FILE_LINES_MAX = 450
FUNCTION_LINES_MAX = 70

# Where a handler under test must block as real ones do, in a way that no signal can end: path -> why.
MAY_SLEEP: Mapping[str, str] = {}

# The rules on one Python file -----------------------------------------------------------------------------------------


def opens_with_a_sentence(path: str, text: str) -> Iterator[str]:
    """A module docstring tells a reader in one line whether this is the file to read."""
    first = (ast.get_docstring(ast.parse(text)) or "").split("\n", 1)[0]
    if not re.search(r"[.?!]$", first) or re.search(r"[.?!] +[A-Z]", first):
        yield f"{path}:1: a file opens with a docstring whose first line is one whole sentence on what the file is for"


def is_named_by_its_idea(path: str, text: str) -> Iterator[str]:
    """A name that fits everything ends up holding everything."""
    del text
    words = {word for part in Path(path).with_suffix("").parts for word in part.lower().split("_")}
    for word in sorted(words & {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}):
        yield f"{path}:1: no module is named {word!r}; name it by the idea that it holds"


def is_short(path: str, text: str) -> Iterator[str]:
    """Past a length a second idea hides in a file or a function; tests are lists of examples, and may be long."""
    if path.startswith("tests/"):
        return
    lines = len(text.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{path}:1: {lines} lines; a file has at most {FILE_LINES_MAX}: look for the second idea hiding in it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {length} lines; a function has at most "
                    f"{FUNCTION_LINES_MAX}: look for the second idea hiding in it"
                )


def imports_by_the_full_name(path: str, text: str) -> Iterator[str]:
    """A module that is imported under two names exists twice, and `except` misses its errors."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        else:
            continue
        for name in names:
            if name.startswith(".") or name.split(".", 1)[0] in LINKED:
                yield f"{path}:{node.lineno}: imports {name!r}; imports are written in full, from jobledger.…"


def asks_no_clock_and_no_chance(path: str, text: str) -> Iterator[str]:
    """Time and chance are arguments of the domain and of projections, so that every history can be replayed."""
    if not path.startswith(tuple(f"{folder}/" for folder in PURE)):
        return
    impure = re.compile(
        r"(^|\.)((time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|sleep))|((datetime|date)\.(now|utcnow|today))"
        r"|(uuid[1467])|(urandom))$|^(random|secrets)\."
    )
    for line, name in _calls(text):
        if impure.search(name):
            yield f"{path}:{line}: calls {name}(); here time and chance are arguments, never asked for"


def sleeps_nowhere(path: str, text: str) -> Iterator[str]:
    """A sleep is either too short on a busy machine or too long on every other one."""
    if not path.startswith("tests/") or path in MAY_SLEEP:
        return
    for line, name in _calls(text):
        if name in {"time.sleep", "sleep"}:
            yield f"{path}:{line}: a test waits on a signal and never sleeps (exceptions, with a reason: MAY_SLEEP)"


def gives_a_reason_for_each_suppression(path: str, text: str) -> Iterator[str]:
    """A suppression without a reason cannot be argued with."""
    suppression = re.compile(
        r"#\s*(noqa\b(:\s*[A-Z]+[0-9]+([\s,]+[A-Z]+[0-9]+)*)?"
        r"|(type|pyright):\s*ignore\b(\[[^\]]*\])?"
        r"|pragma:\s*no \w+)"
    )
    for line, comment in _comments(text):
        found = list(suppression.finditer(comment))
        if found and not re.search(r"\w.*\w", comment[found[-1].end() :]):
            yield f"{path}:{line}: {found[-1].group()!r} has no reason behind it; write `# … # why it is right here`"


def leaves_nothing_to_do(path: str, text: str) -> Iterator[str]:
    """What is to be done is done, or stands where it is planned: a note in the code is read by nobody."""
    for line, comment in _comments(text):
        if found := re.search(r"\b(TODO|FIXME|XXX|HACK)\b", comment):
            yield f"{path}:{line}: {found.group()} in a comment; do it, or plan it elsewhere"


Rule = Callable[[str, str], Iterator[str]]

LONG_FUNCTION = '"""A file."""\ndef long():\n' + "    x = 1\n" * FUNCTION_LINES_MAX

# Each rule with what it must catch: a path and a text.
RULES: tuple[tuple[Rule, tuple[tuple[str, str], ...]], ...] = (
    (
        opens_with_a_sentence,
        (
            ("domain/job.py", "import json\n"),
            ("domain/job.py", '"""The state of a job"""\n'),
            ("domain/job.py", '"""The state. Of a job."""\n'),
        ),
    ),
    (is_named_by_its_idea, (("adapters/utils.py", ""), ("tests/common/given.py", ""), ("domain/lease_manager.py", ""))),
    (is_short, (("domain/job.py", "x = 1\n" * (FILE_LINES_MAX + 1)), ("domain/job.py", LONG_FUNCTION))),
    (
        imports_by_the_full_name,
        (
            ("tests/test_job.py", "import domain\n"),
            ("tests/test_job.py", "from projections.status import status\n"),
            ("domain/job.py", "from .events import Created\n"),
            ("adapters/web/app.py", "def lazily():\n    import adapters.web.pages\n"),
        ),
    ),
    (
        asks_no_clock_and_no_chance,
        (
            ("domain/job.py", "import time\nnow = time.time()\n"),
            ("domain/job.py", "import datetime\nnow = datetime.datetime.now(datetime.UTC)\n"),
            ("projections/status.py", "from datetime import datetime, UTC\nnow = datetime.now(UTC)\n"),
            ("domain/job.py", "from uuid import uuid4\nid = uuid4()\n"),
            ("domain/policies.py", "import random\njitter = random.uniform(0, 1)\n"),
        ),
    ),
    (
        sleeps_nowhere,
        (
            ("tests/test_lease.py", "import time\ntime.sleep(0.1)\n"),
            ("tests/test_lease.py", "from time import sleep\nsleep(0.1)\n"),
        ),
    ),
    (
        gives_a_reason_for_each_suppression,
        (
            ("domain/job.py", "import os  # noqa\n"),
            ("domain/job.py", "import os  # noqa: F401\n"),
            ("domain/job.py", "import os, sys  # noqa: E401, F401\n"),
            ("domain/job.py", "x: int = y  # type: ignore[assignment]\n"),
            ("domain/job.py", "x: int = y  # pyright: ignore[reportAssignmentType]\n"),
            ("domain/job.py", "raise E  # pragma: no cover\n"),
            ("domain/job.py", "x = y  # type: ignore[assignment]  # noqa: F821\n"),
        ),
    ),
    (leaves_nothing_to_do, (("domain/job.py", "x = 1  # TODO: later\n"), ("domain/job.py", "# FIXME\n"))),
)

# What no rule may complain about.
CLEAN = '''"""The state of one job, e.g. of a paused one; TODO is a word here, and so is time.time()."""

from datetime import datetime

from jobledger.domain.events import Created
import elsewhere  # noqa: F401  # it registers itself when it is imported
x: int = y  # type: ignore[assignment]  # the library's annotation is too wide
later = datetime.fromisoformat("2026-01-01")


def f(random: Random, now: datetime) -> str:
    """Tell the time and sleep(0)."""
    return now.isoformat()
'''


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.__name__) for rule, _ in RULES])
def test_every_python_file_follows_the_rule(rule: Rule) -> None:
    files = list(_python_files())

    problems = [problem for path in files for problem in rule(path, (ROOT / path).read_text(encoding="utf-8"))]

    assert len(files) > len(FOLDERS), "the files were not found"
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [pytest.param(rule, *planted, id=f"{rule.__name__}-{n}") for rule, all_ in RULES for n, planted in enumerate(all_)],
)
def test_a_planted_violation_is_caught(rule: Rule, path: str, text: str) -> None:
    assert list(rule(path, text))


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.__name__) for rule, _ in RULES])
@pytest.mark.parametrize("path", ["domain/job.py", "tests/test_job.py"])
def test_clean_code_is_left_alone(rule: Rule, path: str) -> None:
    assert not list(rule(path, CLEAN))


# The rules on the package ---------------------------------------------------------------------------------------------


def second_copies(modules: Collection[str]) -> list[str]:
    """Modules that were loaded under a bare name."""
    return sorted(name for name in modules if name.split(".", 1)[0] in LINKED)


def face_problems(face: ModuleType) -> Iterator[str]:
    """What is wrong with the public names of a module."""
    names: list[str] = list(face.__all__)
    if names != sorted(names, key=_shelf):
        yield f"__all__ is sorted (constants, classes, the rest): {sorted(names, key=_shelf)}"
    for name in names:
        try:
            value = getattr(face, name)
        except AttributeError:
            yield f"{name} is in __all__ but does not exist"
            continue
        is_documentable = inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
        doc = value.__doc__ if is_documentable else "a constant cannot have one"
        # Dataclasses and named tuples without a docstring are given their signature instead.
        if not doc or doc.startswith(f"{name}("):
            yield f"{name} is public and has no docstring"


def _shelf(name: str) -> tuple[int, list[tuple[int, str]]]:
    """The order that ruff keeps (RUF022): constants, classes, the rest; numbers inside a name by their value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def test_no_module_is_loaded_twice() -> None:
    assert second_copies(sys.modules) == [], "import jobledger.domain, never domain: the bare name is a second copy"


def test_a_second_copy_is_noticed() -> None:
    loaded = ["jobledger.domain", "domain", "domain.job", "adapters"]

    assert second_copies(loaded) == ["adapters", "domain", "domain.job"]


def test_every_public_name_is_sorted_resolves_and_is_documented() -> None:
    problems = list(face_problems(jobledger))

    assert not problems, "\n" + "\n".join(problems)


def test_a_careless_face_is_noticed() -> None:
    face = ModuleType("face")
    vars(face).update(
        __all__=["claim", "Lease", "LIMIT", "Missing"],
        claim=lambda: None,
        Lease=type("Lease", (), {"__doc__": "Lease(fence: str)"}),
        LIMIT=1,
    )

    problems = "\n".join(face_problems(face))

    for expected in ("['LIMIT', 'Lease', 'Missing', 'claim']", "Missing is in", "claim is public", "Lease is public"):
        assert expected in problems
    assert "LIMIT is public" not in problems


# The rules on the checkout --------------------------------------------------------------------------------------------


def link_problems(root: Path) -> Iterator[str]:
    """What is wrong with the three links that make one package of three folders."""
    for name in LINKED:
        link = root / "src" / "jobledger" / name
        if not link.is_symlink() or link.readlink() != Path("..", "..", name):
            yield f"src/jobledger/{name} is a link to ../../{name} (make it: ln -sfn ../../{name} src/jobledger/{name})"


def script_problems(path: Path) -> Iterator[str]:
    """What is wrong with a script."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not os.access(path, os.X_OK):
        yield f"{path.name} is executable (chmod +x)"
    if not lines or not lines[0].startswith("#!/usr/bin/env "):
        yield f"{path.name} opens with #!/usr/bin/env"
    if len(lines) < 2 or not re.fullmatch(r"# [A-Z].*\.", lines[1]):
        yield f"{path.name} says in its second line, in one sentence, what it is for"
    for found in re.findall(r"(?m)\b(?:TODO|FIXME)\b.*", "\n".join(lines)):
        yield f"{path.name} leaves nothing to do: {found}"


def record_problems(text: str) -> Iterator[str]:
    """What is wrong with the decision records."""
    labels = ["Context", "Decision", "Why", "Cost", "Wrong if"]
    for record in re.split(r"(?m)^## ", text)[1:]:
        title, *body = [line for line in record.splitlines() if line.strip()]
        if [re.sub(r"^- \*\*(.+?):\*\* \S.*$", r"\1", line) for line in body] != labels:
            yield f"{title!r}: a record has five lines, `- **Label:** text`, labelled {', '.join(labels)}"


def test_three_links_make_the_package() -> None:
    assert not list(link_problems(ROOT))


def test_a_copied_folder_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "src" / "jobledger" / "domain").mkdir(parents=True)
    (tmp_path / "src" / "jobledger" / "adapters").symlink_to("../../elsewhere")
    (tmp_path / "src" / "jobledger" / "projections").write_text("../../projections", encoding="utf-8")

    assert len(list(link_problems(tmp_path))) == len(LINKED)


def test_scripts_can_be_run_and_say_what_they_are_for() -> None:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file() and path.suffix != ".py"]

    problems = [problem for path in [*scripts, ROOT / ".ci" / "run"] for problem in script_problems(path)]

    assert not problems, "\n" + "\n".join(problems)


def test_a_careless_script_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "go").write_text("cd /\n# TODO: more\n", encoding="utf-8")

    assert len(list(script_problems(tmp_path / "go"))) == 4


def test_decision_records_have_five_lines() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")

    assert "\n## " in text
    assert not list(record_problems(text))


@pytest.mark.parametrize(
    "record",
    [
        "## A\n\n- **Context:** a\n- **Decision:** b\n- **Why:** c\n- **Cost:** d\n",
        "## A\n\n- **Context:** a\n- **Decision:** b\n- **Cost:** d\n- **Why:** c\n- **Wrong if:** e\n",
        "## A\n\n- **Context:** a\n- **Decision:** b\n- **Why:** c\n- **Cost:** d\n- **Wrong if:** e\n- more\n",
        "## A\n\n- **Context:** a\n- **Decision:** b\n- **Why:** c\n- **Cost:**\n- **Wrong if:** e\n",
    ],
)
def test_a_record_of_another_shape_is_noticed(record: str) -> None:
    assert list(record_problems(record))


# Reading code ---------------------------------------------------------------------------------------------------------


def _python_files() -> Iterator[str]:
    """Each Python file once, by its path below the root: links are not followed."""
    for folder in FOLDERS:
        for base, folders, names in os.walk(ROOT / folder):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
            yield from (Path(base, name).relative_to(ROOT).as_posix() for name in sorted(names) if name.endswith(".py"))


def _calls(text: str) -> Iterator[tuple[int, str]]:
    """Each call of a plain or dotted name, with its line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.lineno, ast.unparse(node.func)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Each comment, with its line; words in strings are no comments."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string

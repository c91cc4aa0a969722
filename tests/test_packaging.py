"""What users install is the whole package: the wheel, the sdist, and what stands in an empty environment after each."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.xdist_group("packaging")  # one process builds, and all of these tests use what it built


class Built(NamedTuple):
    """What was built: a wheel straight from the tree, an sdist, and a wheel from that sdist."""

    wheel: Path
    sdist: Path
    wheel_of_sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build as a release does, but with the backend that is installed here, so that no network is needed."""
    direct, release = tmp_path_factory.mktemp("direct"), tmp_path_factory.mktemp("release")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    _run([*build, str(direct), "--wheel", str(ROOT)])
    _run([*build, str(release), str(ROOT)])
    return Built(_only(direct, "*.whl"), _only(release, "*.tar.gz"), _only(release, "*.whl"))


def test_the_wheel_holds_every_source_file_once(built: Built) -> None:
    names = _package_entries(built.wheel)

    assert len(names) == len(set(names))
    assert set(names) == _source_files() | {"jobledger/py.typed"}


def test_the_wheel_holds_its_sql(built: Built) -> None:
    """Statements that are read at run time are part of the package like any code."""
    assert _sql(_package_entries(built.wheel)) == _sql(_source_files())


def test_a_wheel_made_from_the_sdist_is_the_same(built: Built) -> None:
    """An sdist carries no links, so this fails when a build leans on them."""
    assert _package_entries(built.wheel_of_sdist) == _package_entries(built.wheel)


def test_the_sdist_holds_what_builds_and_tests_need(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        members = archive.getmembers()
    names = [member.name.split("/", 1)[1] for member in members]

    assert len(names) == len(set(names))
    assert not [member.name for member in members if member.issym()]
    for needed in ("pyproject.toml", "README.md", "LICENSE", "src/jobledger/py.typed", "scripts/test"):
        assert needed in names
    for folder in ("adapters", "domain", "projections", "tests"):
        here = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py")}
        assert here <= set(names)


@pytest.mark.parametrize("which", ["wheel", "sdist"])
def test_an_empty_environment_can_use_it(built: Built, which: str, tmp_path: Path) -> None:
    python = _empty_environment(tmp_path / "env")

    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    _run([*install, "--no-build-isolation", str(getattr(built, which))])
    where = _run([str(python), "-c", "import jobledger; print(jobledger.__file__)"], cwd=tmp_path)
    as_program = _run([str(python.parent / "jobledger"), "--help"], cwd=tmp_path)
    as_module = _run([str(python), "-m", "jobledger", "--help"], cwd=tmp_path)
    played = _run([str(python.parent / "jobledger"), "demo"], cwd=tmp_path)

    assert Path(where.strip()).is_relative_to(tmp_path / "env")
    assert "Usage" in as_program
    assert "Usage" in as_module
    assert "verify: ok" in played


def _empty_environment(folder: Path) -> Path:
    """An environment without jobledger, and its Python.

    Downloading the dependencies twice would take most of a minute: a path line lends it those of this environment
    instead. An editable jobledger does not come along: path lines are not read in a folder that one of them names.
    """
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    python = folder / "bin" / "python"
    packages = _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    lent = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(packages, "lent.pth").write_text("\n".join(sorted(lent)) + "\n", encoding="utf-8")
    return python


def _source_files() -> set[str]:
    """The package's files in this tree, by the names that they have once installed."""
    face = ROOT / "src" / "jobledger"
    own = [*face.glob("*.py"), *(face / "testing").rglob("*.py")]
    files = {path.relative_to(ROOT / "src").as_posix() for path in own}
    for folder in ("adapters", "domain", "projections"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                files.add(f"jobledger/{path.relative_to(ROOT).as_posix()}")
    return files


def _package_entries(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(name for name in archive.namelist() if ".dist-info/" not in name)


def _sql(names: set[str] | list[str]) -> set[str]:
    return {name for name in names if name.endswith(".sql")}


def _only(folder: Path, pattern: str) -> Path:
    [found] = folder.glob(pattern)
    return found


def _run(command: list[str], cwd: Path | None = None) -> str:
    """What a command prints; when it fails, a failure that shows all of it."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PIP_USER"}}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout

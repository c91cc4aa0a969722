"""Other processes on the same file: started together, told to go at one moment, and heard to the end."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

_SECONDS_MAX: Final = 90

# Children find this project's tests too, and begin their work when a line comes.
_BEGINNING: Final = f"""
import sys
sys.path.append({str(ROOT)!r})
"""
_READY: Final = """
def wait_for_the_others():
    print("ready", flush=True)
    sys.stdin.readline()
"""


def run(script: str, *arguments: object) -> str:
    """What one process prints; it has to end well."""
    [out] = run_together(script, [arguments], is_raced=False)
    return out


def run_together(script: str, each: Sequence[Sequence[object]], *, is_raced: bool = True) -> list[str]:
    """What processes print behind their call of ``wait_for_the_others``, each with its own arguments."""
    text = _BEGINNING + _READY + textwrap.dedent(script)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", text, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for arguments in each
    ]
    try:
        if is_raced:
            _start_together(processes)
        return [_ended(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _start_together(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            _ended(process)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def _ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=_SECONDS_MAX)
    assert process.returncode == 0, out + err
    assert not err, err
    return out

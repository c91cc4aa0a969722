"""The independent checker, loaded as its users run it: from its script."""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from io import BytesIO
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "check_history"


@cache
def checker() -> Any:
    """The script as a module; nothing is left beside it."""
    loader = SourceFileLoader("check_history", str(SCRIPT))
    spec = spec_from_loader("check_history", loader)
    assert spec is not None
    module = module_from_spec(spec)
    is_writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = is_writing
    return module


def check(bundle: bytes) -> list[tuple[str, int, str, str]]:
    """What the checker says of a bundle: stream, sequence, rule and text of each problem."""
    found = checker().Bundle()
    found.read(BytesIO(bundle))
    problems: list[tuple[str, int, str, str]] = found.problems()
    return problems

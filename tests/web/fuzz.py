"""Fuzzes the whole API by its own document: every answer is in the schema, and none is a fault of the server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from math import ceil
from typing import Final

import httpx

from jobledger import JobRequest, JobStore, Schedule
from jobledger.adapters.web import WebSettings, create_app
from tests.web.conftest import API
from tests.web.serving import serving

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
STREAMS: Final = r"/feed$|/jobs/\{job_id\}/events$"
"""Answers that may go on for as long as somebody listens; tests/web/test_streams.py is about them."""

CASES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What a run found: how many cases there were, whether all was well, and what it said."""

    cases: int
    is_clean: bool
    said: str


def fuzz(cases: int, *, seed: int | None = None, patience: float = 3_600) -> Fuzzed:
    """Send about so many requests, spread over all operations, to a server with a few jobs and a schedule."""
    many = 10**9
    settings = WebSettings(requests_per_minute=many, misses_per_minute=many)
    with JobStore.open("memory:") as store, serving(create_app(store, settings=settings)) as address:
        for number in range(3):
            store.create(JobRequest(owner="o", kind="k", key=f"k{number}"))
        store.schedules.put(Schedule("nightly", "k", every=3600), by="ann")
        document = httpx.get(f"{address}{API}/openapi.json", timeout=60).json()
        operations = sum(len(methods) for path, methods in document["paths"].items() if path.startswith(API))
        words = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}{API}/openapi.json", "--url", address]
        words += ["--phases", "examples,fuzzing", "--checks", ",".join(CHECKS), "--continue-on-failure"]
        words += ["--max-examples", str(ceil(cases / operations)), "--exclude-path-regex", STREAMS, "--no-color"]
        words += ["--request-timeout", "20", "--suppress-health-check", "all"]
        words += [] if seed is None else ["--seed", str(seed)]
        ran = subprocess.run(  # a program of this environment, and nobody else's words
            words, capture_output=True, text=True, timeout=patience, check=False, env=os.environ | {"COLUMNS": "120"}
        )
        assert all(verified.ok for verified in store.verify_all()), "a history is not whole any more"
    found = re.search(r"([\d,]+) generated", ran.stdout)
    return Fuzzed(int(found[1].replace(",", "")) if found else 0, ran.returncode == 0, ran.stdout + ran.stderr)


def main() -> None:
    """Fuzz with as many cases as are asked for, and tell what was found."""
    fuzzed = fuzz(int(sys.argv[1]) if len(sys.argv) > 1 else CASES)
    sys.stdout.write(fuzzed.said)
    raise SystemExit(0 if fuzzed.is_clean else 1)


if __name__ == "__main__":
    main()

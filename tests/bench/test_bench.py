"""The benchmark itself runs, at toy size; what it measures is no matter here."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.bench.cluster import find_programs
from tests.bench.measures import FLOOR, SQLITE, Measure, Series, judge
from tests.bench.rounds import Results
from tests.bench.run import app
from tests.bench.scaling import plot


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_measure_of_the_sqlite_store_gets_a_figure(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"

    run("--sqlite", "--rounds", 1, "--size", 0.001, "--json", figures)

    told = json.loads(figures.read_text("utf-8"))
    assert told["absent"] == {}
    assert len({figure["measure"] for figure in told["figures"]}) == len(SQLITE)
    assert all(figure["count"] > 0 and figure["seconds"] > 0 for figure in told["figures"])


def test_the_web_face_is_measured_beside_a_bare_route(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"

    run("--web", "--size", 0.0005, "--json", figures)

    told = json.loads(figures.read_text("utf-8"))
    assert [each["name"] for each in told["web"]] == ["bare route", "create", "read", "window"]
    assert all(each["rate"] > 0 for each in told["web"])
    assert len(told["pages"]) == 9


def test_the_stores_alternate_with_the_machine_itself_on_a_private_server(tmp_path: Path) -> None:
    try:
        find_programs()
    except LookupError as reason:
        pytest.skip(str(reason))
    figures = tmp_path / "figures.json"

    run("--no-rivals", "--only", "checkpoint", "--rounds", 1, "--size", 0.02, "--json", figures)

    told = json.loads(figures.read_text("utf-8"))
    assert [figure["engine"] for figure in told["figures"]] == ["jobledger", FLOOR]
    assert told["machine"]["postgresql"]


def test_cost_against_size_is_told_and_drawn(tmp_path: Path) -> None:
    drawing = tmp_path / "scale.svg"

    told = run("--sqlite", "--scale", "--jobs-max", 300, "--svg", drawing)

    assert "claim from a queue of 10" in told
    assert ET.fromstring(drawing.read_text("utf-8")).tag.endswith("svg")  # noqa: S314  # it was drawn just now


def test_the_lateness_of_schedules_is_told(tmp_path: Path) -> None:
    """Every one of them has fired, once."""
    figures = tmp_path / "figures.json"

    told = run("--sqlite", "--schedules", 50, "--json", figures)

    assert "p99 late" in told
    found = json.loads(figures.read_text("utf-8"))["schedules"]
    assert (found["fired"], found["schedules"]) == (50, 50)
    assert 0 <= found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]


def test_an_unknown_name_is_told_with_those_that_are_known() -> None:
    result = CliRunner().invoke(app, ["--only", "nonsense"])

    assert result.exit_code == 2
    assert "nonsense" in result.output
    assert "pgqueuer" in result.output


def test_ratios_are_made_round_by_round_and_the_median_decides() -> None:
    measure = Measure("drain", "drain", 1, "drain", against="rival", bar=0.8, goal=1.2)
    rates = {"jobledger": Series((80.0, 100.0, 10.0)), "rival": Series((100.0, 100.0, 100.0))}

    verdict = judge(measure, rates)

    assert verdict.ratios == Series((0.8, 1.0, 0.1))
    assert (verdict.is_bar_met, verdict.is_goal_met) == (True, False)


def test_a_rival_that_took_no_part_decides_nothing() -> None:
    measure = Measure("drain", "drain", 1, "drain", against="rival", bar=0.8)

    assert judge(measure, {"jobledger": Series((80.0,))}).is_bar_met is None


def test_the_plot_has_a_line_for_each_call() -> None:
    points = [{"jobs": jobs, "call": call, "p50_ms": 1.0, "p99_ms": 2.0} for jobs in (10, 100) for call in ("a", "b")]

    assert plot(points).count("<polyline") == 2


def test_every_audit_gets_a_figure(tmp_path: Path) -> None:
    """And its work is done: what is measured has to hold."""
    figures = tmp_path / "figures.json"

    shown = run("--audit", "--size", 0.002, "--json", figures)

    told = json.loads(figures.read_text("utf-8"))["audit"]
    assert {"verify a store", "verify --export", "check_history", "export", "import", "rebuild status"} <= set(told)
    assert all(rate > 0 for rate in told.values())
    assert "100,000" in shown


def test_how_soon_a_job_starts_is_told_for_each_way_of_waking(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"

    told = run("--sqlite", "--pickups", 3, "--json", figures)

    assert "Idle pick-up" in told
    found = json.loads(figures.read_text("utf-8"))["pickups"]
    assert [each["way"] for each in found] == ["one process", "polling"]
    assert all(0 < each["p50_ms"] <= each["p99_ms"] <= each["max_ms"] for each in found)


def test_the_share_of_the_process_that_did_least_is_told() -> None:
    results = Results()
    results.note("drain-4", "jobledger", 1, 100, 1.0, [25, 25, 25, 25])
    results.note("drain-4", "jobledger", 2, 100, 1.0, [40, 30, 20, 10])
    results.note("drain", "jobledger", 1, 100, 1.0)

    assert results.least_share("drain-4", "jobledger") == 0.4
    assert results.least_share("drain", "jobledger") is None


def test_the_memory_and_the_threads_of_a_host_are_told_on_the_way(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"

    run("--sqlite", "--lasting", 40, "--json", figures)

    looks = json.loads(figures.read_text("utf-8"))["lasting"]
    assert [each["jobs"] for each in looks] == list(range(2, 41, 2))
    assert all(each["memory_bytes"] > 0 and each["threads"] > 1 for each in looks)

"""The benchmark runs, its contenders agree, and it says so if they do not. No time is tested."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import peer
from engines.server import REQUIRED
from marked import by_turns

from benchmarks import agreement, clicks, cold, compare, contenders, data, engines, pages, report
from benchmarks.contenders import CONTENDERS, METRICS
from benchmarks.data import SHAPES
from benchmarks.measure import Run

pytestmark = by_turns(0.5)

ROOT = Path(__file__).resolve().parent.parent
TIMES = {"cpu": 2.0, "start": 0.5, "alone": 1.2, "wall": 1.0, "peak": 100.0}
RUN = Run(CONTENDERS[1], dict.fromkeys(METRICS, 0.5), **TIMES)
JOIN = Run(CONTENDERS[0], {}, cpu=1.0, start=0.1, alone=0.9, wall=0.5, peak=50.0)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_all_contenders_agree_and_are_in_the_table() -> None:
    completed = run("--rows", "3000", "--runs", "1")
    assert completed.returncode == 0, completed.stderr
    present, absent = contenders.split(CONTENDERS)
    rows = [line.split("|")[1].strip() for line in completed.stdout.splitlines() if line[:1] == "|"]
    assert rows[0] == "contender"
    assert rows[2:] == [contender.name for contender in present]
    assert "All agree within 1e-09: ndcg@10 0." in completed.stdout
    for contender in absent:
        assert (
            f"Left out: {contender.name}; pip install {' '.join(contender.missing)}"
            in completed.stdout
        )


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_contenders_agree_on_every_shape(shape: str, tmp_path: Path) -> None:
    rows = max(10_000, SHAPES[shape].rows)
    completed = run("--rows", str(rows), "--runs", "1", "--shape", shape, "--out", str(tmp_path))
    assert completed.returncode == 0, completed.stderr
    assert f"{rows:,} rankings rows, {SHAPES[shape].labels(rows):,} labels" in completed.stdout
    assert (tmp_path / f"{shape}_{rows}.md").read_text() == completed.stdout


SMALL = {
    "agreement_coverage": "--worlds 2",
    "bits": "sqlite postgres --case weights",
    "click_models": "--impressions 2000 --seeds 1 --shares 0.5",
    "cost": "--rows 10000 --runs 1 --only checks",
    "counterfactual": "--impressions 1000 --seeds 1",
    "dashboards": "{folder}/facts.duckdb --days 20",
    "days": "--requests 2000 --runs 1",
    "days ": "--data rankings --rows 40000 --runs 1",
    "experiment_nights": "--rows 20000",
    "experiments": "--experiments 5 --users 200 --days 3",
    "fusion": "--rows 1e4 --evaluations 1",
    "growth chdb": "--engine chdb --rows 1e4 --memory 1GB --by-hand",
    "growth duckdb": "--engine duckdb --rows 1e4 --memory 1GB --by-hand --skewed 5",
    "growth spark": "--engine spark_cluster --rows 1e4",
    "growth trino": "--engine trino --rows 1e4",
    "leaderboards": "--tracks 3",
    "interleaving": "--requests 200 --seeds 1 --gaps 0.3",
    "nights": "duckdb --days 1",
    "prediction_powered": "--worlds 2",
    "proxies": "--programmes 2 --sizes 20",
    "quantiles": "--logs 2",
    "reconcile": "--queries 2 --tools 0",
    "same_bytes chdb": "chdb --rows 4000 --only evaluation clicks",
    "same_bytes datafusion": "datafusion --rows 4000 --only evaluation",
    "trace": "",
    "spark_days": "--rows 20000 --runs 1",
    "position_bias": "--sizes 30_000 --seeds 1",
    "position_bias ": "--cost 20000",
}
"""Benchmark -> arguments with which it takes seconds."""
NEEDS = {
    "growth chdb": "chdb",
    "growth spark": "pyspark",
    "growth trino": "trino",
    "same_bytes chdb": "chdb",
    "same_bytes datafusion": "datafusion",
    "spark_days": "pyspark",
}
STARTED = {"__main__", "clicks", "cold", "compare", "data", "engines", "measure", "pages"}
"""Those that other tests run, or that others start."""


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_each_benchmark_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        peer(NEEDS[name])
    command = [sys.executable, "-m", f"benchmarks.{name.split(maxsplit=1)[0]}"]
    command += SMALL[name].format(folder=tmp_path).split()
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "MissingError" in completed.stderr and not REQUIRED:
        pytest.skip(completed.stderr.splitlines()[-1])
    assert completed.returncode == 0, completed.stderr
    assert "left out" not in completed.stderr
    assert completed.stdout.count("\n") >= 3
    assert " differ, in " not in completed.stdout


def test_every_benchmark_is_run_by_a_test() -> None:
    files = (ROOT / "benchmarks").glob("*.py")
    modules = {path.stem for path in files if "__main__" in path.read_text() or "main" in path.stem}
    assert modules == {name.split()[0] for name in SMALL} | STARTED


@pytest.mark.long
@pytest.mark.parametrize("of", ["lists", "clicks"])
def test_a_page_is_made_beside_its_evaluation(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vl_convert")
    for module in (pages, clicks):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    pages.main(["--queries", "3000", "--runs", "1", "--data", of])
    table = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:4]] == [
        "evaluation",
        "report",
    ]
    assert "page: " in table


@by_turns(1.9)
def test_only_some_run() -> None:
    completed = run("--rows", "2000", "--runs", "1", "--only", "sqlmetrics-unchecked,bare-join")
    assert completed.returncode == 0, completed.stderr
    assert "| bare-join " in completed.stdout
    assert "| window-sql " not in completed.stdout


@by_turns(1.1)
def test_each_statement_of_an_evaluation_is_told() -> None:
    command = [sys.executable, "-m", "benchmarks.cost", "--rows", "10000", "--stages"]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    sorted_rows, scattered = completed.stdout.split("checks, scattered rows\n")
    assert "  table sqlmetrics_per_query\n" in sorted_rows
    assert "  table sqlmetrics_per_query\n" in scattered


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "bare-join,pola"), "unknown: pola; known: bare-join, "),
        (("--rows", "50"), "give a multiple of 100"),
        (("--runs", "0"), "give 1 or more"),
    ],
)
def test_wrong_arguments_are_told(arguments: tuple[str, str], message: str) -> None:
    completed = run(*arguments)
    assert completed.returncode == 2
    assert message in completed.stderr


@pytest.mark.parametrize("wrong", [0.5 + 2e-9, float("nan"), None])
def test_a_difference_ends_it(wrong: float | None) -> None:
    means = {**RUN.means, "ap": wrong}
    other = replace(RUN, contender=CONTENDERS[3], means=means)
    with pytest.raises(agreement.Disagreement, match=r"ap: .* has 0\.5, window-sql has "):
        agreement.check([JOIN, RUN, RUN, other])


def test_rounding_is_no_difference() -> None:
    other = replace(RUN, means=dict.fromkeys(METRICS, 0.5 + 1e-12))
    agreement.check([JOIN, RUN, other])


def test_the_table_has_medians_and_the_ratio_of_their_cpu() -> None:
    runs = [JOIN, *(replace(RUN, cpu=cpu) for cpu in (2.0, 9.0, 3.0))]
    text = report.text(1000, "usual", runs, [JOIN.contender, RUN.contender], [])
    row = next(line for line in text.splitlines() if f"| {RUN.contender.name} " in line)
    assert [cell.strip() for cell in row.split("|")[2:-1]] == [
        "3.00",
        "0.50",
        "1.20",
        "1.00",
        "100",
        "3.00",
    ]


def test_a_missing_peer_is_left_out_by_name() -> None:
    absent = replace(CONTENDERS[5], needs={"no_such_module": "no-such-package"})
    present, left_out = contenders.split([CONTENDERS[0], absent])
    assert (present, left_out) == ((CONTENDERS[0],), (absent,))
    text = report.text(1000, "usual", [JOIN], present, left_out)
    assert "Left out: pytrec_eval; pip install no-such-package" in text


def test_a_cold_start_is_measured_beside_a_bare_duckdb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    took = {case: number for number, case in enumerate(cold.CASES, start=1)}
    monkeypatch.setattr(cold, "cpu", lambda case, _: took[case])
    cold.main(["--runs", "2"])
    assert "| sqlmetrics evaluate | 5.000 | 2.5 |" in capsys.readouterr().out.splitlines()


@by_turns(1.5)
def test_a_cold_start_runs(tmp_path: Path) -> None:
    for file, content in cold.FILES.items():
        (tmp_path / file).write_text(content)
    assert cold.cpu("sqlmetrics evaluate", tmp_path) > 0


@pytest.mark.long
def test_a_comparison_is_measured_beside_its_evaluation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "FOLDER", tmp_path)
    compare.main(["--queries", "200", "--runs", "1"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row.split()[1] for row in rows[1:]] == list(compare.CASES)


@pytest.mark.long
def test_a_click_log_is_measured_beside_the_bare_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clicks, "FOLDER", tmp_path)
    clicks.main(["--requests", "300", "--runs", "1"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["bare join", "sqlmetrics"]
    clicks.main(["--requests", "300", "--stages"])


@by_turns(2.5)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="CPU seconds come from /proc")
def test_engines_are_measured_beside_the_query_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    engines.main(["sqlite", "--rows", "3000", "--runs", "1"])
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [way.strip() for _, way in rows] == list(engines.WAYS[:3])
    assert all(engine.startswith(" SQLite 3.") for engine, _ in rows)


@pytest.mark.long
def test_rankingmetrics_of_spark_agrees_with_the_query_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer("pyspark")
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    files = data.files_of(3000)
    by_hand, of_spark = (
        engines.measured("spark", way, files, runs=1) for way in (engines.BY_HAND, engines.WAYS[-1])
    )
    assert by_hand
    assert of_spark
    means = of_spark["means"]
    assert means == pytest.approx({name: by_hand["means"][name] for name in means}, abs=1e-9)


def test_other_numbers_of_an_engine_end_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    means = iter([0.5, 0.5 + 1e-12, 0.6])

    def fake_measured(*_: object) -> dict[str, object]:
        took = {"cpu": [2.0, 1.0, 9.0], "wall": [0.0], "peak": [100.0]}
        return {"version": "SQLite 3", "means": {"mrr": next(means)}, **took}

    monkeypatch.setattr(engines, "measured", fake_measured)
    monkeypatch.setattr(data, "files_of", lambda _: None)
    with pytest.raises(SystemExit, match=r"sqlite, sqlmetrics, checked has 0\.6"):
        engines.main(["sqlite"])
    assert "| SQLite 3 | by hand | 2.00 | 1.00 | 0.00 | - |" in capsys.readouterr().out

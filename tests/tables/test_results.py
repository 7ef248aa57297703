"""Every result has the same ways out: dicts, Arrow, pandas, polars, JSON, text, Markdown, HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import sqlmetrics as sm
from sqlmetrics.annotation.estimate import Checkup
from sqlmetrics.clicks.analysis.depth import Cutoff, Depth, End, Position
from sqlmetrics.clicks.analysis.experiment import (
    ListComparison,
    MixedUsers,
    Reason,
    SampleRatioMismatch,
    Soundness,
)
from sqlmetrics.clicks.analysis.label_comparison import LabelComparison
from sqlmetrics.clicks.analysis.offline_online import Contradiction, Line, OfflineOnline, Pair
from sqlmetrics.clicks.cleaning_report import Step
from sqlmetrics.clicks.counterfactual.terms import CounterfactualEstimate, CounterfactualResult
from sqlmetrics.clicks.interleaving import InterleavingEstimate, InterleavingOutcome
from sqlmetrics.clicks.models import ModelFit, ModelFits, PositionFit
from sqlmetrics.clicks.propensity.curve import Propensity, PropensityCurve
from sqlmetrics.clicks.propensity.estimate import PropensityEstimate
from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.clicks.segment import ByGroup
from sqlmetrics.clicks.simulation import SimulatedLog
from sqlmetrics.comparison.diagnosis.diagnosis import Finding
from sqlmetrics.comparison.diagnosis.rules import RULES
from sqlmetrics.comparison.funnel.funnel import SourceFunnel
from sqlmetrics.comparison.online.verdict import Experiment, MetricResult
from sqlmetrics.comparison.track.track import Decision
from sqlmetrics.comparison.track.uploads import Upload
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.jobs.checks.verdict import Verdict, Verdicts
from sqlmetrics.proof import doctor
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation, read
from sqlmetrics.tables.tabular import Tabular

PACKAGE = Path(sm.__file__).parent
BAD = "<script>[x](y)\x1b"
"""A system, item or user whose name is markup for each form."""

LISTS = pa.table(
    {
        "query_id": ["q1", "q1", "q2"] * 2,
        "item_id": ["a", "b", "a"] * 2,
        "score": [2.0, 1.0, 1.0, 1.0, 2.0, 1.0],
        "system": ["old"] * 3 + [BAD] * 3,
    }
)
LABELS = pa.table({"query_id": ["q1", "q2"], "item_id": ["b", "a"], "grade": [1, 3]})
DAY = date(2026, 1, 31)
FITS = ModelFits((ModelFit("sdbn", (PositionFit(1, 10, 5, -0.5, 1.75),)),), "a tenth")
CURVE = PropensityCurve("given", (Propensity(1, 1.0, group=BAD), Propensity(2, 0.5, 0.25, 1, BAD)))
CELL = (BAD, "all", "all")
EFFECT = MetricResult(BAD, "ctr", "primary", 0.2, 0.3, 0.5, 0.1, 0.9, None, "better")
CHANGE = Contradiction(*CELL, "mrr", "ctr", DAY, DAY, 0.5, -0.25)
NUMBER = InterleavingEstimate(0.5, None, None, None)


@cache
def _evaluated() -> sm.Result:
    result = sm.evaluate(LISTS, LABELS, ["mrr", "ndcg@3"], system="system")
    assert isinstance(result, sm.Result)
    return result


def _staged() -> sm.Funnel:
    stages = LISTS.rename_columns({"system": "stage"})
    return sm.funnel(stages, LABELS, order=["old", BAD])


def _swept() -> sm.Sweep:
    return sm.fuse_sweep(LISTS, LABELS, "mrr", system="system", step=0.5)


def _fused() -> sm.Fusion:
    return sm.fuse(LISTS, system="system")


JUDGES = {"human": LABELS, BAD: LABELS.set_column(2, "grade", [[1, 2]])}


def _agreed() -> sm.Agreement:
    return sm.agree(JUDGES, rankings=LISTS, system="system")


def _combined() -> sm.Combination:
    methods = ["majority", "dawid_skene", "calibrated"]
    return sm.combine(JUDGES, method=methods, per="system", rankings=LISTS, system="system")


def _of_sources() -> sm.Funnel:
    sources = pa.array([[name] for name in LISTS["system"].to_pylist()])
    return sm.funnel(
        LISTS.slice(0, 3).append_column("source", sources[3:]), LABELS, sources="source"
    )


def _mismatch() -> SampleRatioMismatch:
    return SampleRatioMismatch("users", {"a": 9, BAD: 1}, {"a": 5, BAD: 5}, 6.4, 1, 0.01, 0.05)


def _list_comparison() -> ListComparison:
    requests = pa.table({"request_id": [BAD], "overlap_at_10": [0.5], "rbo": [0.25]})
    return ListComparison(10, 4, 0, 0, 0.5, 0.25, 1, (Reason("cut", 2, 1),), requests)


def _reconciled() -> Reconciliation:
    candidate = Candidate(("house", "beir"), {"ties": "id_asc"}, BAD, "mrr", 0.5, False, 0, 0.1)
    target = read("0.5")
    return Reconciliation(sm.parse("mrr"), target, (candidate,), 0, (), 9, 3, 0, 2, 0.5, "")


def _logged() -> ClickResult:
    result = _evaluated()
    steps = (Step("impressions", "bot", 9, 8),)
    return ClickResult(result.spec, steps, {"impressions": (9, 8)}, {BAD: 1}, result, ())


def _abstaining() -> sm.Abstention:
    keys = ("system", "segment_name", "segment_value", "metric", "confidence")
    row = dict(zip(keys, (BAD, "all", "all", "mrr", "max"), strict=True)) | {"k": 0, "nauc": 0.5}
    row |= dict.fromkeys(("at_0", "at_10", "at_50", "at_90"), 0.5)
    return sm.Abstention(pa.Table.from_pylist([row | {"n_queries": 2}]))


def _tied() -> sm.TieAudit:
    counts = {"system": [BAD], "n_lists": [1], "n_tied_lists": [1], "n_rows": [2]}
    numbers = {name: [0.5] for name in ("worst", "average", "value", "best", "spread")}
    names = {"metric_date": [DAY], "system": [BAD], "metric": ["mrr"]}
    return sm.TieAudit(pa.table(counts | {"n_tied_rows": [2]}), pa.table(names | numbers))


def _estimated() -> Checkup:
    texts = dict.fromkeys(("segment_name", "segment_value", "metric", "mean_over"), "all")
    numbers = {"value": 0.5, "ci_low": 0.25, "ci_high": 0.75, "n_graded": 9, "n_population": 99}
    table = pa.Table.from_pylist([{"system": BAD, **texts, **numbers}])
    return Checkup(table, 0.95, (), _evaluated())


def _labels() -> LabelComparison:
    names = {"labels": "as the spec says", "first_day": None, "last_day": None, "system": BAD}
    row = {**names, "metric": "mrr", "value": 0.5, "n_queries": 2}
    counts = {"n_impressions": 9, "rank": 1, "corrected_rank": 2, "rate": 0.5}
    moved = {"query_text": BAD, "item_id": BAD, **counts, "corrected_rate": 0.25}
    return LabelComparison((row,), (moved,), ("a note",))


def _stored() -> sm.StoredMetrics:
    names = {"metric": "mrr", "system": BAD, "segment_name": "all", "segment_value": "all"}
    numbers = {"value": 0.5, "ci_low": None, "ci_high": None, "n_days": 1, "n_queries": 9}
    row = {**names, **numbers, "first_date": DAY, "last_date": DAY, "definition_hash": "0123"}
    return sm.StoredMetrics("shop", [DAY], (row,), ("a note",))


def _explained() -> sm.QueryExplanation:
    lists = {"old": [{"rank": 1, "item_id": "a", "title": BAD, "grade": 1.0}], BAD: []}
    row = {"metric": "mrr", "system": BAD, "value": 0.5, "baseline_value": 1, "difference": -0.5}
    rows = (row | {"definition_hash": "0123"},)
    return sm.QueryExplanation("shop", "q1", BAD, DAY, "old", lists, rows, ("a note",))


def _uploaded() -> sm.Track:
    upload = Upload(BAD, f"{BAD}.txt", "2026-05-01T09:00:00Z", "0" * 64)
    problem = Problem(BAD, "has no row", 1, remedy="add one")
    decision = Decision(upload, upload.modified, "refused", (problem,))
    return sm.Track((decision,), None, {}, ("a note",))


PAST = pa.Table.from_pylist(
    [
        {"experiment": i, "metric": metric, "difference": i % 7 * (i + x), "standard_error": 0.2}
        for i in range(24)
        for x, metric in enumerate(("ctr", BAD, "mrr"))
    ]
)

RESULTS: dict[type[Tabular], Callable[[], Tabular]] = {
    sm.Result: _evaluated,
    sm.Comparison: lambda: sm.compare(LISTS, LABELS, "mrr", baseline="old", movers=1),
    sm.Leaderboard: lambda: sm.leaderboard(LISTS, LABELS, "mrr"),
    sm.Track: _uploaded,
    sm.ProxyMetrics: lambda: sm.foretell(PAST, "ctr", replicates=100),
    sm.Funnel: _staged,
    SourceFunnel: _of_sources,
    sm.Fusion: _fused,
    sm.Agreement: _agreed,
    sm.Combination: _combined,
    sm.Sweep: _swept,
    sm.Diagnosis: lambda: sm.Diagnosis(
        (Finding(RULES[0], BAD, "old", "mrr +0.5"),), None, _evaluated(), ("a note",)
    ),
    sm.Abstention: _abstaining,
    sm.TieAudit: _tied,
    Reconciliation: _reconciled,
    doctor.Report: lambda: doctor.Report(
        "DuckDB", "2.0", (doctor.Finding(BAD, 9, 0.5, "mrr"),), 1.0
    ),
    Checkup: _estimated,
    Verdicts: lambda: Verdicts(
        [Verdict("mrr", "min 0.6", BAD, "", DAY, 0.5, None, holds=False, severity="warn")]
    ),
    ClickResult: _logged,
    PropensityCurve: lambda: CURVE,
    PropensityEstimate: lambda: PropensityEstimate(CURVE, {}, None),
    ModelFits: lambda: FITS,
    ByGroup: lambda: ByGroup("device", {BAD: FITS, "phone": FITS}, ("a note",)),
    CounterfactualResult: lambda: CounterfactualResult(
        *("request", "given", None, 0.95),
        estimates=(
            CounterfactualEstimate(
                *(BAD, "dcg", 10, "ips", 0.5, None, None, None, None, 9, 9, 9, 9.0, 9, 0.0, 0.0),
                warnings=("few clicks",),
            ),
        ),
    ),
    InterleavingOutcome: lambda: InterleavingOutcome(
        *("team_draft", BAD, "old", 9, 9, 0, 4, 3, NUMBER, NUMBER, 9, 5, 0.95)
    ),
    ListComparison: _list_comparison,
    SampleRatioMismatch: _mismatch,
    MixedUsers: lambda: MixedUsers(9, 1, {BAD: ("a", BAD)}),
    Soundness: lambda: Soundness(
        _mismatch(), MixedUsers(9, 1, {BAD: ("a", BAD)}), _list_comparison()
    ),
    Experiment: lambda: Experiment(
        *("ship", BAD, BAD, _mismatch(), 1, (EFFECT,), 7, (BAD,), 0.5),
        exposures=tuple(replace(EFFECT, since_first=name) for name in ("0", "1")),
    ),
    Depth: lambda: Depth(
        (Position(BAD, 1, 9, 3), Position(None, 1, 9, 3)),
        (End(BAD, "click", 1, 3, 1.0),),
        (Cutoff(BAD, 0.95, 1, 1.0),),
    ),
    OfflineOnline: lambda: OfflineOnline(
        (Line(DAY, *CELL, {"mrr": 0.5}, {"ctr": 0.25}), Line(DAY, "b", "all", "all", {}, {})),
        (Pair(*CELL, "mrr", "ctr", 9, None, None, None, 0),),
        (CHANGE,),
        (),
    ),
    LabelComparison: _labels,
    sm.StoredMetrics: _stored,
    sm.QueryExplanation: _explained,
    SimulatedLog: lambda: SimulatedLog(Path("log"), {BAD: Path(BAD)}, {BAD: 9}, {"bot": 1}),
}


def test_every_result_of_rows_is_looked_at() -> None:
    bases = re.compile(r"^class (\w+)\(.*\b(?:Tabular|Rows|Funnel)\b", re.M)
    names = {name for path in PACKAGE.rglob("*.py") for name in bases.findall(path.read_text())}
    assert names - {"Rows"} == {result_class.__name__ for result_class in RESULTS}


COSTLY = {sm.Comparison, sm.Funnel, sm.Leaderboard, SourceFunnel}
CELLS = [
    pytest.param(
        result_class,
        id=result_class.__name__,
        marks=[pytest.mark.turns(0.3)] if result_class in COSTLY else [],
    )
    for result_class in RESULTS
]


@pytest.mark.parametrize("result_class", CELLS)
def test_a_result_has_all_ways_out(result_class: type[Tabular]) -> None:
    result = RESULTS[result_class]()
    assert type(result) is result_class
    names = result.table_names
    tables = {name: result.to_arrow(name) for name in names}
    for name, table in tables.items():
        assert not [field.name for field in table.schema if pa.types.is_null(field.type)], name
        assert list(result.to_pandas(name).columns) == table.column_names
        assert len(result.to_pandas(name)) == table.num_rows
        assert result.to_polars(name).shape == table.shape
    main = tables[names[0]]
    assert main.num_rows > 0
    assert result.to_arrow().equals(main)
    if not isinstance(result, tuple):  # both take a tuple for a list of columns
        assert pa.table(result).equals(main)
        assert pl.DataFrame(result).shape == main.shape
    assert list(result.to_pandas().columns) == main.column_names
    assert len(json.loads(result.to_json())) == main.num_rows
    with pytest.raises(sm.SpecError, match=f"unknown table 'tabel'.*{names[0]}"):
        result.to_arrow("tabel")
    _check_dicts(result.to_dicts(), tables)
    _check_texts(result)


NAMED_OTHERWISE = ({"mismatch", "crossed", "likeness"},)
"""The keys of `to_dicts` where none is a table's: those of `clicks.soundness`."""


def _check_dicts(dicts: Any, tables: dict[str, pa.Table]) -> None:
    """The tables have the values of the dicts of the same name; one list is the main table's."""
    main = next(iter(tables))
    rows_by_table = dicts if isinstance(dicts, dict) else {main: dicts}
    shared = rows_by_table.keys() & tables.keys()
    assert shared or rows_by_table.keys() in NAMED_OTHERWISE
    for name in shared:
        if not isinstance(rows_by_table[name], list):
            continue
        rows = tables[name].to_pylist()
        for row, record in zip(rows, rows_by_table[name], strict=True):
            for column in row.keys() & record.keys():
                plain = isinstance(record[column], str | int | float | date | None)
                assert not plain or row[column] == record[column] or column == "day", column


def _check_texts(result: Tabular) -> None:
    """No form takes what stands in the data for its own."""
    assert repr(result) == result.text()
    html = result.html()
    assert html.count("<table>") == html.count("</table>")
    if not result._is_drawn:
        assert result._repr_html_() == html
        assert result._repr_mimebundle_() == {"text/plain": result.text(), "text/html": html}
    assert "<script>" not in html
    for text in (result.text(), html, result.markdown()):
        assert "\x1b" not in text
    assert not re.search(r"(?<!\\)<script>|\](?<!\\)\(y", result.markdown())
    assert not re.search(r"\S\nnote: ", result.markdown()), (
        "a note runs together with the line above"
    )

"""Whatever shape data in memory has: the numbers of the same data as rows of a table.

One small world of scores and grades is given in each shape that people have, to each function that
takes rankings and labels; what has to come out is computed from rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from marked import by_turns

import sqlmetrics as sm

pytestmark = by_turns(0.1)

METRICS = ["ndcg@3", "recall@2", "mrr", "ap"]
N_QUERIES, N_ITEMS = 7, 6
SEED = np.random.default_rng(45)
NEW, OLD = (SEED.permuted(np.tile(np.arange(N_ITEMS) / 8, (N_QUERIES, 1)), axis=1) for _ in "ab")
GRADES = SEED.integers(0, 4, (N_QUERIES, N_ITEMS))
GRADES[3] = 0
MASK = SEED.random((N_QUERIES, N_ITEMS)) < 0.6
MASK[5] = False


class Sparse:
    """A sparse matrix as scipy has them, as far as it is looked at."""

    def __init__(self, values: Any, is_stored: Any) -> None:
        self.row, self.col = np.nonzero(is_stored)
        self.data, self.shape = values[self.row, self.col], values.shape

    def tocoo(self) -> Sparse:
        """Itself."""
        return self


class Run:
    """What becomes a dict, as a run of ranx does."""

    def __init__(self, scores: Any, name: str) -> None:
        self.name, self._scores = name, scores

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Query -> item -> score."""
        return {
            str(query): {str(item): float(score) for item, score in enumerate(row)}
            for query, row in enumerate(self._scores)
        }


def rows(values: Any, column: str, is_there: Any = None) -> list[dict[str, Any]]:
    """A matrix as rows: the table that all shapes are held against."""
    return [
        {"query_id": str(query), "item_id": str(item), column: values[query][item].item()}
        for query, item in np.argwhere(np.ones(values.shape) if is_there is None else is_there)
    ]


def frames(kind: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Any], Any]:
    return lambda scores: kind(rows(scores, "score"))


RUNS: Mapping[str, Callable[[Any], Any]] = {
    "array": lambda scores: scores,
    "float32": lambda scores: scores.astype(np.float32),
    "float16": lambda scores: scores.astype(np.float16),
    "longdouble": lambda scores: scores.astype(np.longdouble),
    "lists": lambda scores: scores.tolist(),
    "whole scores": lambda scores: (scores * 8 + 1).astype(int) - 3,
    "masked array of no mask": lambda scores: np.ma.array(scores, mask=False),
    "sparse": lambda scores: Sparse(scores, np.ones(scores.shape)),
    "dict of dicts": lambda scores: Run(scores, "x").to_dict(),
    "run": lambda scores: Run(scores, "x"),
    "rows": lambda scores: rows(scores, "score"),
    "tuples": lambda scores: [tuple(row.values()) for row in rows(scores, "score")],
    "pandas": frames(pd.DataFrame),
    "polars": frames(pl.DataFrame),
    "arrow": frames(pa.Table.from_pylist),
    "ids": lambda scores: np.argsort(-scores, axis=1).astype(str),
    "lists of ids": lambda scores: np.argsort(-scores, axis=1).astype(str).tolist(),
    "arrays of ids": lambda scores: dict(enumerate(np.argsort(-scores, axis=1))),
    "padded ids": lambda scores: np.pad(
        np.argsort(-scores, axis=1), ((0, 0), (0, 2)), constant_values=-1
    ),
    "padded arrays of ids": lambda scores: {
        query: np.append(ids, [-1, -1]) for query, ids in enumerate(np.argsort(-scores, axis=1))
    },
}
LABELS: Mapping[str, Callable[[Any], Any]] = {
    "array": lambda grades: grades,
    "floats": lambda grades: grades.astype(np.float16),
    "lists": lambda grades: grades.tolist(),
    "sparse": lambda grades: Sparse(grades, grades > 0),
    "rows": lambda grades: rows(grades, "grade"),
    "dict of dicts": lambda grades: {
        query: dict(enumerate(map(int, row))) for query, row in enumerate(grades)
    },
}
TRUTH = rows(GRADES, "grade")


def values(result: Any) -> dict[str, float]:
    """The numbers by `system/metric`."""
    return {
        f"{row['system']}/{row['metric']}@{row['k']}": row["value"] for row in result.to_dicts()
    }


EXPECTED = values(
    sm.evaluate({"new": rows(NEW, "score"), "old": rows(OLD, "score")}, TRUTH, METRICS)
)
OF_SHAPES = [(run, "rows") for run in RUNS] + [
    ("array", label) for label in LABELS if label != "rows"
]


@pytest.mark.parametrize(("run", "label"), OF_SHAPES)
def test_a_shape_gives_what_its_rows_give(run: str, label: str) -> None:
    """Alone, beside another in a dict, and in each function that takes rankings."""
    is_whole = run == "whole scores"  # which the labels' shape tells from ids
    new, old = RUNS[run](NEW), RUNS[run](OLD)
    labels = GRADES if is_whole else LABELS[label](GRADES)
    alone = values(sm.evaluate(new, labels, ", ".join(METRICS)))
    assert alone == pytest.approx(
        {key.replace("new", "rankings"): EXPECTED[key] for key in EXPECTED if key.startswith("new")}
    )
    runs = {"new": new, "old": old}
    assert values(sm.evaluate(runs, labels, METRICS)) == pytest.approx(EXPECTED)
    for row in sm.compare(runs, labels, METRICS, baseline="old"):
        name = f"{row['metric'].partition('@')[0]}@{row['metric'].partition('@')[2] or 0}"
        compared = [row["value"], row["baseline_value"]]
        assert compared == pytest.approx([EXPECTED[f"new/{name}"], EXPECTED[f"old/{name}"]])
    if "ids" not in run:
        spread = sm.tie_audit(runs, labels, METRICS).metrics["spread"].to_pylist()
        assert spread == pytest.approx([0.0] * len(EXPECTED), abs=1e-12)  # threads add as they end


def test_lists_of_runs_are_systems() -> None:
    """By their own names, or by their numbers."""
    labels, names = TRUTH, {"run_1": "new", "run_2": "old"}
    for shape in ("array", "pandas", "arrow", "dict of dicts", "sparse"):
        result = sm.evaluate([RUNS[shape](NEW), RUNS[shape](OLD)], labels, METRICS)
        renamed = {
            key.replace(number, name, 1): value
            for key, value in values(result).items()
            for number, name in names.items()
            if key.startswith(number)
        }
        assert renamed == pytest.approx(EXPECTED), shape
    assert values(
        sm.evaluate([Run(NEW, "new"), Run(OLD, "old")], labels, METRICS)
    ) == pytest.approx(EXPECTED)
    with pytest.raises(sm.InputError, match="two runs are called 'new'"):
        sm.evaluate([Run(NEW, "new"), Run(OLD, "new")], labels, METRICS)


NEVER = np.where(MASK, NEW, -np.inf)


MASKED: Mapping[str, tuple[Any, Any, dict[str, Any], Any, Any, str]] = {
    "mask": (NEW, GRADES, {"mask": MASK}, MASK, MASK, ""),
    "lists": (NEW.tolist(), GRADES.tolist(), {"mask": MASK.tolist()}, MASK, MASK, ""),
    "masked array": (np.ma.array(NEW, mask=~MASK), GRADES, {}, MASK, None, ""),
    "-inf": (NEVER, GRADES, {}, MASK, None, f"rankings: {(~MASK).sum()} scores of -inf are masked"),
    "sparse": (Sparse(NEW, MASK), GRADES, {}, MASK, None, ""),
    "masked labels": (NEW, np.ma.array(GRADES, mask=~MASK), {}, None, MASK, ""),
    "NaN labels": (
        NEW,
        np.where(MASK, GRADES, np.nan),
        {},
        None,
        MASK,
        "grades of NaN count as no label",
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_what_is_masked_is_not_there(name: str) -> None:
    """In one evaluation, and in batches of a stream."""
    rankings, labels, named, is_ranked, has_label, note = MASKED[name]
    metrics = [*METRICS, "precision(precision_denominator=returned)@3"]
    result = sm.evaluate(rankings, labels, metrics, **named)
    table = sm.evaluate(rows(NEW, "score", is_ranked), rows(GRADES, "grade", has_label), metrics)
    assert values(result) == pytest.approx(values(table))
    assert any(note in message for message in (*result.notes, ""))
    stream = sm.StreamingMetric(metrics)
    for part in (slice(0, 3), slice(3, None)):
        batch = [
            Sparse(NEW[part], MASK[part]) if isinstance(matrix, Sparse) else matrix[part]
            for matrix in (rankings, labels)
        ]
        stream.update(*batch, **{name: value[part] for name, value in named.items()})
    assert stream.compute() == pytest.approx(dict(table))
    assert any(
        note.removeprefix("rankings") in message or "NaN" in note for message in (*stream.notes, "")
    )


def test_masked_items_in_every_kind_of_list() -> None:
    """Random batches with -inf and unlabelled items: the stream gives what one evaluation gives."""
    chance = np.random.default_rng(4)
    for n_items, high, rules in (
        (5, 2, {}),
        (30, 4, {}),
        (30, 2, {"ties": "average"}),
        (12, 3, {"missing": "drop"}),
        (8, 2, {"ties": "input_order"}),
    ):
        scores = chance.integers(-3, 12, (60, n_items)).astype(float)
        if "ties" not in rules:
            scores = chance.random((60, n_items))
        scores[chance.random(scores.shape) < 0.5] = -np.inf
        scores[:4] = -np.inf
        grades = chance.integers(0, high, scores.shape).astype(float)
        grades[2:6] = 0
        metrics = ["ndcg@5", "recall@10", "mrr@10", "precision@3"]
        for names in (metrics, [*metrics, "ap", "ndcg"]):
            stream = sm.StreamingMetric(names, **rules)
            stream.update(scores, grades)
            rule = {"ties": "average", **rules}
            if "ties" not in rules:
                rule = rules
            expected = sm.evaluate(scores, grades, names, **rule)
            assert stream.compute() == pytest.approx(dict(expected)), (n_items, high, rules)


SAME, TURNED = np.zeros((6, 5)), np.zeros((5, 6))
IDS = np.array([[2, 1, 0], [0, 1, 2]])
REFUSED: Mapping[str, tuple[Any, Any, dict[str, Any], str]] = {
    "columns": (SAME, np.zeros((6, 4)), {}, "scores have the shape 6 x 5, labels 6 x 4"),
    "rows": (SAME, np.zeros((4, 5)), {}, "scores have the shape 6 x 5, labels 4 x 5"),
    "turned": (SAME, TURNED, {}, "labels 5 x 6; in both .*; give labels.T"),
    "a system": ({"a": SAME, "b": TURNED}, SAME, {}, "rankings: b: scores have the shape 5 x 6"),
    "sparse": (SAME, Sparse(TURNED, TURNED), {}, "scores have the shape 6 x 5, labels 5 x 6"),
    "ids of no column": (
        IDS,
        np.zeros((2, 2)),
        {},
        "shape 2 x 3, up to 2, do not fit labels of the shape 2 x 2",
    ),
    "whole numbers": (
        IDS,
        np.zeros(IDS.shape),
        {},
        r"may be scores or item ids; .*\.astype\(float\)",
    ),
    "whole numbers twice": ([[3, 3]], {"0": {"3": 1}}, {}, "repeat in a row .* say which"),
    "grades or ids": (IDS[:, :2], [[1, 0, 2], [2, 0, 1]], {}, "may be grades of the items 0, 1, 2"),
    "grades beside texts": (
        [["a", "b"]],
        [[1, 0]],
        {},
        "whole numbers do not fit rankings of texts",
    ),
    "mask": (
        SAME,
        SAME,
        {"mask": TURNED},
        "mask: its shape must be that of the rankings, 6 x 5; given",
    ),
    "mask of rows": (TRUTH, TRUTH, {"mask": SAME}, "mask: the rankings are not a matrix"),
    "odd types": ([["a", 1.0]], SAME, {}, "a list of lists holds texts and numbers"),
    "times": (np.zeros((2, 2), "datetime64[D]"), SAME, {}, "a matrix must hold numbers or texts"),
    "huge": ({"q": ["x" * 9_000, 1.5]}, TRUTH, {}, "characters left out|must hold texts"),
    "huge dict": ({f"q{n}": object() for n in range(9_000)}, TRUTH, {}, "neither a list nor"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_shape_that_does_not_fit_is_refused(name: str) -> None:
    rankings, labels, named, message = REFUSED[name]
    with pytest.raises(sm.InputError, match=message) as caught:
        sm.evaluate(rankings, labels, "mrr", **named)
    assert len(str(caught.value)) <= 1_000


def test_a_message_is_bounded_whatever_is_wrong() -> None:
    """One problem or hundreds, of any length: all are in `problems`."""
    for metrics in (["x" * 9_000], [f"bar{n}" for n in range(200)], ["y" * 400] * 3):
        with pytest.raises(sm.SpecError) as caught:
            sm.evaluate(TRUTH, TRUTH, metrics)
        assert len(str(caught.value)) <= 1_000
        assert len(caught.value.problems) >= len({*metrics})


def test_whole_numbers_are_never_told_in_silence() -> None:
    """As scores, ids, and ids of the relevant items; a note says as what they are taken."""
    ids = np.array([[5, 3, -1], [7, -1, -1]])
    result = sm.evaluate(ids, {"0": {"3": 1}, "1": {"7": 1}}, "mrr")
    assert result["mrr"] == 0.75
    assert "rankings: 3 ids of -1 are padding, not items" in result.notes
    assert "rankings: whole numbers are read as item ids, best first" in result.notes
    result = sm.evaluate(ids, [[3], [7]], "mrr")
    assert result["mrr"] == 0.75
    assert any("read as ids of relevant items" in note for note in result.notes)
    assert sm.evaluate(ids, [["3"], ["7", "9"]], "mrr")["mrr"] == 0.75
    assert sm.evaluate(IDS.astype(str), [[0, 1, 0], [1, 0, 0]], "mrr")["mrr"] == 0.75
    scores = sm.evaluate([[1, 3, 3], [4, 1, 1]], [[0, 1, 0], [1, 0, 0]], "mrr")
    assert scores["mrr"] == 1
    assert (
        "rankings: whole numbers in a matrix with the shape of the labels are read as scores"
        in scores.notes
    )


def test_labels_of_ids_alone_have_grade_1(tmp_path: Any) -> None:
    """Rows, frames and files; with another column the grade may be that one, and is asked for."""
    run, pairs = {"q": ["a", "b"]}, [("q", "b")]
    frame = pd.DataFrame(pairs, columns=["query_id", "item_id"])
    frame.to_csv(tmp_path / "labels.csv", index=False)
    shapes = [
        pairs,
        frame,
        frame.to_dict("records"),
        frame.to_dict("list"),
        tmp_path / "labels.csv",
    ]
    for labels in (*shapes, frame.rename(columns={"query_id": "qid", "item_id": "docno"})):
        result = sm.evaluate(run, labels, "mrr")
        assert result["mrr"] == 0.5
        assert "labels: they have no column of grades, so each counts as grade 1" in result.notes
    with pytest.raises(sm.InputError, match="unknown column 'grade'"):
        sm.evaluate(run, frame.assign(stars=1), "mrr")


def test_metrics_as_one_text_or_as_objects() -> None:
    """What `-m` takes, and what ir_measures calls a measure: its text is read."""
    texts = [
        type("Measure", (), {"__str__": lambda _, text=text: text})()
        for text in ("nDCG@3", "P(rel=2)@2")
    ]
    keys = [*sm.evaluate(NEW, GRADES, texts)]
    assert keys == ["ndcg@3", "precision(rel=2)@2"]
    assert [*sm.evaluate(NEW, GRADES, "nDCG@3, P(rel=2)@2")] == keys
    assert [*sm.StreamingMetric("nDCG@3, P(rel=2)@2").metrics] == keys


def test_names_and_numbers_for_loggers() -> None:
    """One argument for names, NaN for what is undefined, and JSON without an invented day."""
    result = sm.evaluate(NEW, GRADES, ["ndcg@3", "recall(rel=9)@2"])
    columns = ["ndcg_at_3", "recall_rel9_at_2"]
    stream = sm.StreamingMetric(["ndcg@3", "recall(rel=9)@2"])
    stream.update(NEW, GRADES)
    for named in (result.to_dict(names="column"), stream.compute(names="column")):
        assert [*named] == columns
        assert math.isnan(named[columns[1]])
    assert math.isnan(result["recall(rel=9)@2"])
    assert math.isnan(dict(result)["recall(rel=9)@2"])
    assert (
        result.to_dict()["ndcg@3"] == result["ndcg@3"] == result.to_dict(names="column")[columns[0]]
    )
    systems = sm.evaluate({"new": NEW, "old": OLD}, GRADES, "ndcg@3")
    assert [*systems.to_dict(names="column")] == ["new/ndcg_at_3", "old/ndcg_at_3"]
    with pytest.raises(sm.SpecError, match="unknown value for names"):
        result.to_dict(names="columns")  # type: ignore[arg-type]
    records = json.loads(result.to_json())
    assert [row["value"] for row in records] == [result["ndcg@3"], None]
    assert "1970" not in result.to_json()
    dated = [{**row, "day": "2026-11-01"} for row in rows(NEW, "score")]
    days = sm.evaluate(dated, TRUTH, "mrr", date="day")
    assert json.loads(days.to_json())[0]["metric_date"] == "2026-11-01"
    assert str(days.to_dicts()[0]["metric_date"]) == "2026-11-01", "a date, as polars has it"
    compared = sm.compare({"new": NEW, "old": OLD}, GRADES, "mrr", baseline="old")
    assert json.loads(compared.to_json())[0]["system"] == "new"


def test_gains_as_a_list() -> None:
    """The gain of grade n stands at place n, as LightGBM has it."""
    gains = [0, 1, 5, 20]
    for gain in (gains, dict(enumerate(gains))):
        assert sm.evaluate(NEW, GRADES, "ndcg@3", gain=gain)["ndcg@3"] == pytest.approx(
            sm.evaluate(NEW, GRADES, "ndcg(gain={1: 1, 2: 5, 3: 20})@3")[
                "ndcg(gain={1: 1, 2: 5, 3: 20})@3"
            ]
        )
    stream = sm.StreamingMetric("ndcg@3", gain=gains)
    stream.update(NEW, GRADES)
    assert stream.compute()["ndcg@3"] == pytest.approx(
        sm.evaluate(NEW, GRADES, "ndcg@3", gain=gains)["ndcg@3"]
    )


BAD: Mapping[str, tuple[Any, Any, str]] = {
    "-100": ([[-100, 1, 0, 0]], None, "grade is negative"),
    "infinite label": ([[np.inf, 1, 0, 0]], None, "grade is NaN or infinite"),
    "label of 2000": ([[2000, 1, 0, 0]], None, "grade is too large for gain=exp"),
    "negative weight": ([[0, 1, 0, 0]], [-1], "weight is negative"),
    "weight of NaN": ([[0, 1, 0, 0]], [np.nan], "weight is negative or not finite"),
    "infinite weight": ([[0, 1, 0, 0]], [np.inf], "weight is negative or not finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_stream_refuses_what_an_evaluation_refuses(name: str) -> None:
    labels, weight, message = BAD[name]
    scores = np.array([[0.9, 0.8, 0.7, 0.6]])
    weights = {"queries": {"query_id": ["0"], "weight": weight}, "weight": "weight"}
    texts = []
    for call in (
        lambda: sm.evaluate(scores, np.array(labels), "ndcg@3", **(weights if weight else {})),
        lambda: sm.StreamingMetric("ndcg@3").update(scores, labels, weight=weight),
    ):
        with pytest.raises(sm.InputError, match=message) as caught:
            call()
        texts.append(str(caught.value).splitlines()[0])
    assert texts[0] == texts[1]


def test_labels_below_1_are_told() -> None:
    """To metrics with a `rel` nothing is relevant; the note is the same in a stream."""
    scores, labels = np.array([[0.9, 0.8, 0.7]]), np.array([[0, 0.5, 0.25]])
    metrics = ["ndcg@3", "mrr", "recall@3"]
    result, stream = sm.evaluate(scores, labels, metrics), sm.StreamingMetric(metrics)
    stream.update(scores, labels)
    note = "the highest grade is 0.5, and relevant is from 1 on: to mrr, recall@3 no item is"
    assert any(message.startswith(note) for message in result.notes)
    assert [message for message in result.notes if message.startswith(note)] == [*stream.notes]
    assert not sm.evaluate(scores, labels * 2, metrics).notes
    assert not sm.evaluate(scores, labels, "mrr(rel=0.5)").notes


def test_streams_that_differ_say_how() -> None:
    stream = sm.StreamingMetric("ndcg@5")
    for other, message in (
        (sm.StreamingMetric("ndcg@5", gain="linear"), "given gain=linear for gain=exp"),
        (sm.StreamingMetric("ndcg@9"), "given ndcg@9 for ndcg@5"),
        (sm.StreamingMetric("ndcg@5", ties="best"), "given ties=best for ties=average"),
    ):
        with pytest.raises(sm.SpecError, match=message):
            stream.merge(other)


def test_what_speaks_arrow_is_a_table() -> None:
    """As pyspark's DataFrames do, alone and as one of several."""

    class Lazy:
        columns = ("query_id", "item_id", "score")

        def collect(self) -> list[Any]:
            """Rows of Spark, which are no table here."""
            return []

        def __arrow_c_stream__(self, schema: Any = None) -> Any:
            return pa.Table.from_pylist(rows(NEW, "score")).__arrow_c_stream__(schema)

    assert sm.evaluate(Lazy(), TRUTH, "mrr")["mrr"] == EXPECTED["new/mrr@0"]
    lazy = pl.DataFrame(rows(NEW, "score")).lazy()
    assert sm.evaluate(lazy, TRUTH, "mrr")["mrr"] == EXPECTED["new/mrr@0"]
    old = type("DataFrame", (), {"__module__": "pyspark.sql", "columns": [], "collect": list})
    with pytest.raises(sm.InputError, match=r"df\.toArrow\(\)"):
        sm.evaluate(old(), TRUTH, "mrr")
    result = sm.evaluate({"a": Lazy(), "b": Lazy()}, TRUTH, "mrr")
    assert values(result) == {f"{name}/mrr@0": EXPECTED["new/mrr@0"] for name in "ab"}

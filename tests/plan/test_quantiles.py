"""A median, a percentile or the geometric mean of the values of queries, beside their mean."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sqlmetrics as sm
from sqlmetrics.catalog.dimension import metric_row
from sqlmetrics.catalog.measure import parse

SHARES = {"median": 50, "min": 0, "p10": 10, "p90": 90, "max": 100}
COUNTRIES = ("de", "fr", "jp")


def _tables(seed: int = 1, queries: int = 57) -> tuple[pa.Table, pa.Table]:
    """Random lists of two systems on two days, in three countries."""
    random = np.random.default_rng(seed)
    keys = [(d, s, q) for d in ("2026-01-01", "2026-01-02") for s in "ab" for q in range(queries)]
    rows = [(*key, item) for key in keys for item in range(9)]
    day, system, query, item = zip(*rows, strict=True)
    rankings = {"date": day, "system": system, "query_id": query, "item_id": item}
    rankings["score"] = random.permutation(len(rows)).astype(float)
    rankings["country"] = [COUNTRIES[q % 3] for q in query]
    labels = [(q, i) for q in range(queries) for i in range(9)]
    grades = random.choice([0.0, 0.0, 0.0, 1.0, 2.0], len(labels))
    query, item = zip(*labels, strict=True)
    return pa.table(rankings), pa.table({"query_id": query, "item_id": item, "grade": grades})


def test_numpy_and_the_database_have_the_same_quantiles() -> None:
    averages = (*SHARES, "geometric")
    metrics = [f"{m}(average={a})" for m in ("ndcg", "first_rank") for a in averages]
    result = sm.evaluate(*_tables(), metrics, system="system", date="date", by="country")
    country = {query: COUNTRIES[query % 3] for query in range(57)}
    lists = result.per_query().to_pylist()
    rows = result.to_dicts()
    assert len(rows) == 2 * 2 * (1 + 3) * len(metrics)
    for row in rows:
        measure = parse(row["metric"])
        values = [
            query_row[measure.column]
            for query_row in lists
            if (query_row["metric_date"], query_row["system"])
            == (row["metric_date"], row["system"])
            and row["segment_value"] in ("all", country[int(query_row["query_id"])])
            and query_row[measure.column] is not None
        ]
        if (average := str(measure.setting("average"))) == "geometric":
            wanted = np.exp(np.log(np.maximum(values, 1e-5)).mean())
        else:
            wanted = np.percentile(values, SHARES[average])
        assert row["value"] == pytest.approx(wanted, rel=1e-12), row
        assert row["n_queries"] == len(values)
        assert (row["numerator"], row["denominator"], row["sum_sq"]) == (None, None, None)


def test_an_average_of_all_metrics_stands_in_the_name_of_those_that_have_it() -> None:
    rankings, labels = _tables(queries=5)
    options = {"system": "system", "date": "date", "confidence": 0.9}
    result = sm.evaluate(rankings, labels, ["mrr", "num_q"], average=["macro", "p10"], **options)
    assert [str(measure) for measure in result.measures] == ["mrr", "mrr(average=p10)", "num_q"]
    assert [row["ci_low"] is None for row in result.to_dicts()][:4] == [False, False, True, True]
    alone = sm.evaluate(rankings, labels, "mrr", average="median", system="system", date="date")
    assert [str(measure) for measure in alone.measures] == ["mrr(average=median)"]
    assert metric_row(alone.measures[0]).roll_up == "none"


def test_the_definition_of_a_mean_is_what_it_was() -> None:
    spec = sm.Spec(
        rankings={"relation": "r"}, labels={"relation": "l"}, metrics=["mrr", "mrr(average=min)"]
    )
    mean, least = spec.measures
    assert "average" not in spec.definition(mean)
    assert spec.definition(least)["average"] == "min"
    assert spec.definition_hash(mean) == "5ae84ef39adfc467"
    assert spec.definition_hash(least) != spec.definition_hash(mean)


def test_what_a_quantile_cannot_be_is_refused_with_the_reason() -> None:
    rankings, labels = _tables(queries=5)
    with pytest.raises(sm.SpecError, match="cannot be weighted; leave out the weight"):
        sm.evaluate(rankings, labels, "mrr(average=p10)", weight="score", system="system")
    items = pa.table({"item_id": [*range(9)], "category": ["a"] * 9})
    with pytest.raises(sm.SpecError, match="values below 0 have no geometric mean"):
        sm.evaluate(rankings, labels, "ils(average=geometric)@3", items=items)
    with pytest.raises(sm.SpecError, match="only a mean can weigh queries"):
        sm.evaluate(rankings, labels, "gauc(average=p10, gauc_weight=positives)", system="system")
    for arguments in ({"metrics": "mrr(average=p10)"}, {"metrics": "mrr", "average": "p10"}):
        with pytest.raises(
            sm.SpecError, match=r"is a quantile \(p10\) of the values of queries; S"
        ):
            sm.StreamingMetric(**arguments)
    with pytest.raises(sm.SpecError, match="is the geometric mean of the values of queries; S"):
        sm.StreamingMetric("gm_map")
    with pytest.raises(sm.SpecError, match=r"is a quantile \(p10\) of them; leave out average"):
        sm.reconcile(rankings, labels, "mrr(average=p10)", 0.5, system="system", date="date")
    metrics = ["mrr", "mrr(average=min)", "gm_map"]
    comparison = sm.compare(rankings, labels, metrics, system="system", date="date")
    assert any(
        "it is a quantile (min) of the values of queries" in note for note in comparison.notes
    )
    assert any(
        "gm_map is not compared: it is the geometric mean" in note for note in comparison.notes
    )
    assert [row["metric"] for row in comparison] == ["mrr"]

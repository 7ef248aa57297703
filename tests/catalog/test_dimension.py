"""What the catalogue says of a metric as one row: for tables, legends and semantic layers."""

from __future__ import annotations

import pytest

from sqlmetrics.catalog.dimension import MetricRow, metric_row, metric_rows, row_of
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.metric import Metric, listed
from sqlmetrics.catalog.online import ONLINE, online
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.spec import Spec


def _text(metric: Metric) -> str:
    return f"{metric.name}@10" if metric.cutoff != "none" else metric.name


@pytest.mark.parametrize("metric", list(listed()), ids=lambda metric: metric.name)
def test_each_metric_has_a_row_that_is_found_again_by_its_key(metric: Metric) -> None:
    row = metric_row(parse(_text(metric)))
    assert row_of(row.metric, row.k) == row
    assert (row.name, row.column) == (_text(metric), _text(metric).replace("@", "_at_"))
    assert row.low is not None
    assert row.high is None or row.low < row.high
    assert row.additive == (row.roll_up != "none") == (not metric.pooled)
    assert (row.roll_up == "total") == metric.count


@pytest.mark.parametrize("name", [metric.example for metric in ONLINE.values()])
def test_online_metrics_have_rows_too(name: str) -> None:
    row = row_of(name, 0)
    assert (row.name, row.roll_up, row.meaning) == (name, "ratio", online(name).metric.title)
    assert row.label[0].isupper()
    assert "_" not in row.label


def test_a_row_says_all_that_a_legend_needs() -> None:
    spec = Spec(
        name="s",
        rankings={"relation": "r"},
        labels={"relation": "l"},
        metrics=["ndcg@10", "first_rank", "num_q", "recall(rel=2)@50"],
        by=(),
    )
    ndcg, rank, queries, recall, clicks = metric_rows(spec.measures, ["ctr@5"])
    assert ndcg == MetricRow(
        metric="ndcg",
        k=10,
        name="ndcg@10",
        column="ndcg_at_10",
        label="Normalized discounted cumulative gain at 10",
        meaning="DCG@k / IDCG@k",
        low=0.0,
        high=1.0,
        direction="higher",
        additive=True,
        unit="",
        roll_up="ratio",
    )
    assert (rank.direction, rank.low, rank.high, rank.unit) == ("lower", 1.0, None, "rank")
    assert (queries.direction, queries.roll_up, queries.k) == ("none", "total", 0)
    assert (recall.column, recall.label) == ("recall_rel2_at_50", "Recall (rel=2) at 50")
    assert (clicks.label, clicks.unit) == ("Click-through rate at 5", "share")


def test_what_another_version_wrote_has_no_row() -> None:
    with pytest.raises(SpecError, match="unknown metric"):
        row_of("ndgc", 10)

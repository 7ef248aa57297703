"""Which columns of its sources each column of a job's tables reads, as OpenLineage has it."""

from __future__ import annotations

import pytest

import sqlmetrics as sm
from sqlmetrics.engines.url import parse_url
from sqlmetrics.jobs.notices.columns import columns_read
from sqlmetrics.jobs.notices.events import COMPLETE, Lineage
from sqlmetrics.jobs.summary import Summary

FORMS = {
    "select r.q as query_id, r.i as item_id, max(r.s) as score, r.unread from shop.runs as r "
    "group by all": ["q", "i", "s"],
    "select query_id, item_id, score from (select q as query_id, i as item_id, s + b as score "
    "from shop.runs) as inner_rows": ["q", "i", "b", "s"],
    "with a as (select q, i, s from shop.runs) select a.q as query_id, a.i as item_id, "
    "a.s as score from a": ["q", "i", "s"],
    "select r.q as query_id, z.value as item_id, r.s as score from shop.runs as r "
    "cross join lateral jsonb_array_elements(r.items) as z": ["q", "items", "s"],
    "select r.q as query_id, u.item as item_id, r.s as score from shop.runs as r "
    "cross join unnest(r.items) as u(item)": ["q", "items", "s"],
    "select * from shop.runs": [],
}
"""A query of the rankings -> the columns of `shop.runs` that decide its metrics."""

PLACE = parse_url("postgresql://ann@db/warehouse")


def spec(sql: str = "", **changed: object) -> sm.Spec:
    relation = {"relation": "shop.runs", "columns": {"system": "model", "date": "ds"}}
    given = {
        "name": "shop",
        "rankings": {"sql": sql} if sql else relation,
        "labels": {"relation": "shop.truth", "columns": {"grade": "relevance"}},
        "metrics": ["ndcg@10", "mrr"],
        "output": {"relation": "marts.m", "per_query": "marts.mq"},
    }
    return sm.Spec(**given | changed)


@pytest.mark.parametrize("sql", FORMS)
def test_a_metric_reads_what_decides_it_through_any_query(sql: str) -> None:
    read = columns_read(spec(sql), PLACE)["per_query"]
    of_runs = [name for table, name in read["ndcg_at_10"] if table.name == "warehouse.shop.runs"]
    assert of_runs == FORMS[sql]
    of_truth = [name for table, name in read["ndcg_at_10"] if "truth" in table.name]
    assert of_truth == ["query_id", "item_id", "relevance"]
    assert [name for _, name in read.get("query_id", [])] == FORMS[sql][:1]


def test_items_are_read_by_the_metrics_that_need_them() -> None:
    items = {"relation": "shop.items", "columns": {"category": "kind"}}
    read = columns_read(spec(metrics=["ndcg@10", "ils@10"], items=items), PLACE)["per_query"]
    named = {
        metric: [name for table, name in read[metric] if "items" in table.name]
        for metric in ("ndcg_at_10", "ils_at_10")
    }
    assert named == {"ndcg_at_10": [], "ils_at_10": ["item_id", "kind"]}


def test_the_facet_is_openlineages_own() -> None:
    generated = pytest.importorskip("openlineage.client.generated.column_lineage_dataset")
    asked = spec()
    event = Lineage(asked, PLACE, "0191c5f2-0000-7000-8000-000000000000").event(
        COMPLETE, Summary(asked)
    )
    facets = {one["name"]: one["facets"]["columnLineage"] for one in event["outputs"][:2]}
    for told in facets.values():
        fields = {
            name: generated.Fields(
                inputFields=[generated.InputField(**one) for one in field["inputFields"]]
            )
            for name, field in told["fields"].items()
        }
        own = generated.ColumnLineageDatasetFacet(fields=fields)
        assert told["_schemaURL"] == own._get_schema()
    facts = facets["warehouse.marts.m"]["fields"]
    assert {*facts} == {"metric_date", "system", "value", "numerator", "denominator"}
    source = {"namespace": "postgres://db:5432", "name": "warehouse.shop.runs"}
    assert facts["metric_date"]["inputFields"] == [{**source, "field": "ds"}]
    assert [one["field"] for one in facts["value"]["inputFields"]] == [
        *("query_id", "item_id", "score"),
        *("query_id", "item_id", "relevance"),
    ]

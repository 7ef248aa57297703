"""Which columns of its sources each column of a job's tables reads, as OpenLineage has it."""

from __future__ import annotations

import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines.url import parse_url
from sqlmetrics.jobs.notices.columns import Dataset, columns_read, filters_read
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

DATABASE = parse_url("postgresql://ann@db/warehouse")


def spec(sql: str = "", **changed: object) -> sm.Spec:
    relation = {"relation": "shop.runs", "columns": {"system": "model", "date": "ds"}}
    settings = {
        "name": "shop",
        "rankings": {"sql": sql} if sql else relation,
        "labels": {"relation": "shop.truth", "columns": {"grade": "relevance"}},
        "metrics": ["ndcg@10", "mrr"],
        "output": {"relation": "marts.m", "per_query": "marts.mq"},
    }
    return sm.Spec(**settings | changed)


@pytest.mark.parametrize("sql", FORMS)
def test_a_metric_reads_what_decides_it_through_any_query(sql: str) -> None:
    read = columns_read(spec(sql), DATABASE)["per_query"]
    of_runs = [name for table, name in read["ndcg_at_10"] if table.name == "warehouse.shop.runs"]
    assert of_runs == FORMS[sql]
    of_truth = [name for table, name in read["ndcg_at_10"] if "truth" in table.name]
    assert of_truth == ["query_id", "item_id", "relevance"]
    assert [name for _, name in read.get("query_id", [])] == FORMS[sql][:1]


def test_items_are_read_by_the_metrics_that_need_them() -> None:
    items = {"relation": "shop.items", "columns": {"category": "kind"}}
    read = columns_read(spec(metrics=["ndcg@10", "ils@10"], items=items), DATABASE)["per_query"]
    named = {
        metric: [name for table, name in read[metric] if "items" in table.name]
        for metric in ("ndcg_at_10", "ils_at_10")
    }
    assert named == {"ndcg_at_10": [], "ils_at_10": ["item_id", "kind"]}
    read = columns_read(spec(metrics=["recall(revenue)@10"]), DATABASE)["per_query"]
    of_truth = [name for table, name in read["recall_revenue_at_10"] if "truth" in table.name]
    assert of_truth == ["query_id", "item_id", "relevance", "revenue"]


LOG = {
    "impressions": {
        "relation": "shop.shown",
        "where": "not is_internal",
        "columns": {
            "request": "rid",
            "query": "q",
            "item": "sku",
            "position": "pos",
            "system": "bucket",
            "time": "ts",
            "user": "uid",
            "segments": ["country"],
        },
    },
    "events": {
        "sql": "select e.r as request_id, e.i as item_id, e.kind as action, e.late as happened_at "
        "from shop.events as e",
        "columns": {"time": "happened_at"},
    },
    "cleaning": {"test": "is_probe = 1 or lower(agent) = 'bot'"},
    "daily": True,
}
"""A click log: what was shown in a table, what was done in a query."""


def fields(columns: list[tuple[Dataset, str]]) -> list[str]:
    return [f"{dataset.name.rpartition('.')[2]}.{name}" for dataset, name in columns]


@by_turns(1.4)
def test_a_click_log_reads_what_was_shown_and_done() -> None:
    click_spec = sm.Spec(
        clicks=LOG,
        metrics=["ndcg@10"],
        online=["ctr@5"],
        by=["country"],
        output={"relation": "marts.m", "per_query": "marts.mq"},
    )
    read = columns_read(click_spec, DATABASE)
    decided = ["shown.rid", "shown.sku", "shown.pos", "events.r", "events.i", "events.kind"]
    assert {name: fields(columns) for name, columns in read["facts"].items()} == {
        "metric_date": ["shown.ts"],
        "system": ["shown.bucket"],
        "segment_value": ["shown.country"],
        **dict.fromkeys(("value", "numerator", "denominator"), decided),
    }
    assert fields(read["per_query"]["ndcg_at_10"]) == decided
    assert fields(filters_read(click_spec, DATABASE)) == [
        "shown.is_internal",
        "shown.is_probe",
        "shown.agent",
    ]
    assert fields(read["per_query"]["query_id"]) == ["shown.rid"], "not where it is joined"
    corrected = {"labels": {"pool": "query_item", "rate": "ips"}}
    corrected |= {"propensity": {"method": "randomised", "by": "country", "randomised": "r = 1"}}
    of_curves = sm.Spec(clicks=LOG | corrected, metrics=["mrr"], output={"relation": "marts.m"})
    value = fields(columns_read(of_curves, DATABASE)["facts"]["value"])
    assert value[-2:] == ["shown.country", "shown.r"], "they decide the propensities"


def test_a_wide_log_reads_the_actions_that_a_metric_counts() -> None:
    columns = {"clicked": "c", "actions": {"purchase": "b"}, "dwell": "stay", "query": "q"}
    log = {"relation": "shop.log", "columns": columns}
    pooled = {"pool": "query_item"}
    wide_spec = sm.Spec(
        clicks={"log": log, "labels": pooled, "cleaning": {"min_dwell": 5}},
        metrics=["ndcg@10"],
        online=["purchases"],
        output={"relation": "marts.m"},
    )
    of_both = ["log.request_id", "log.item_id", "log.position"]
    read = columns_read(wide_spec, DATABASE)
    assert fields(read["per_query"]["ndcg_at_10"]) == [*of_both, "log.q", "log.stay", "log.c"]
    assert fields(read["facts"]["value"]) == [*of_both, "log.q", "log.stay", "log.c", "log.b"]


def test_user_behavior_insights_name_their_own_columns() -> None:
    tables = {name: {"relation": f"ubi.{name}"} for name in ("events", "requests")}
    ubi_spec = sm.Spec(
        clicks={"format": "ubi", **tables}, metrics=["mrr"], output={"relation": "marts.m"}
    )
    read = columns_read(ubi_spec, DATABASE)["facts"]["value"]
    assert fields(read) == [
        *("events.query_id", "events.event_attributes", "events.action_name"),
        "requests.query_id",
    ]


def test_segments_weights_and_filters_name_their_columns() -> None:
    segmented = spec(
        rankings={"relation": "shop.runs", "where": "not is_test and region in ('de', 'fr')"},
        queries={"relation": "shop.queries", "columns": {"weight": "traffic", "text": "words"}},
        segments={"new": "signup_days <= 7 or plan = 'trial'", "query_length": "query_length"},
        by=["new", "query_length"],
    )
    facts = columns_read(segmented, DATABASE)["facts"]
    assert fields(facts["segment_value"]) == [
        *("queries.query_id", "queries.signup_days", "queries.plan", "queries.words")
    ]
    assert fields(facts["value"])[-2:] == ["queries.query_id", "queries.traffic"]
    assert fields(filters_read(segmented, DATABASE)) == ["runs.is_test", "runs.region"]


def test_the_facet_is_openlineages_own() -> None:
    generated = pytest.importorskip("openlineage.client.generated.column_lineage_dataset")
    rankings = {"relation": "shop.runs", "columns": {"system": "model", "date": "ds"}}
    filtered = spec(rankings={**rankings, "where": "is_test = 0"})
    event = Lineage(filtered, DATABASE, "0191c5f2-0000-7000-8000-000000000000").event(
        COMPLETE, Summary(filtered)
    )
    facets = {
        dataset["name"]: dataset["facets"]["columnLineage"] for dataset in event["outputs"][:2]
    }
    for facet in facets.values():
        fields = {
            name: generated.Fields(
                inputFields=[generated.InputField(**column) for column in field["inputFields"]]
            )
            for name, field in facet["fields"].items()
        }
        filters = [
            generated.InputField(
                **field
                | {"transformations": [generated.Transformation(**field["transformations"][0])]}
            )
            for field in facet["dataset"]
        ]
        assert [(field.field, field.transformations[0].subtype) for field in filters] == [
            ("is_test", "FILTER")
        ]
        expected = generated.ColumnLineageDatasetFacet(fields=fields, dataset=filters)
        assert facet["_schemaURL"] == expected._get_schema()
    facts = facets["warehouse.marts.m"]["fields"]
    assert {*facts} == {"metric_date", "system", "value", "numerator", "denominator"}
    source = {"namespace": "postgres://db:5432", "name": "warehouse.shop.runs"}
    assert facts["metric_date"]["inputFields"] == [{**source, "field": "ds"}]
    assert [column["field"] for column in facts["value"]["inputFields"]] == [
        *("query_id", "item_id", "score"),
        *("query_id", "item_id", "relevance"),
    ]

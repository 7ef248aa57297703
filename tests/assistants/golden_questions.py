"""What people ask an assistant, the call that answers it, and the number by the formula in Python.

A number is looked up in the answer by its path; what it must be is computed by `shop_world` from
the lists, and not by the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shop_world import DAYS, FELL, FIRST, PAUSED, QUERIES, mean_of, order_of, value_of

WEEKS = range(7), range(7, DAYS)
ALL_DAYS = range(DAYS)


@dataclass(frozen=True)
class Question:
    """A question, how it is answered, and by what.

    Attributes:
        text: As people ask it.
        tool: The tool that is called.
        arguments: With what.
        numbers: Path in the answer -> what stands there.
        words: What the answer says.
    """

    text: str
    tool: str
    arguments: dict[str, Any]
    numbers: dict[str, Callable[[], Any]] = field(default_factory=dict)
    words: tuple[str, ...] = ()


def first(column: str, expected: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    return {f"rows.0.{column}": expected}


def mean(metric: str, system: str, days: range, country: str = "") -> Callable[[], float]:
    return lambda: mean_of(metric, system, days, country)


def shop(**arguments: Any) -> dict[str, Any]:
    return {"spec": "shop", **arguments}


def of_days(days: range) -> dict[str, str]:
    first_day, last_day = FIRST.toordinal() + days[0], FIRST.toordinal() + days[-1] + 1
    return {"start": str(FIRST.fromordinal(first_day)), "end": str(FIRST.fromordinal(last_day))}


def period(days: range) -> str:
    start, end = days[0], days[-1]
    return "..".join(str(FIRST.fromordinal(FIRST.toordinal() + n)) for n in (start, end))


def moved_most(metric: str, day: int) -> tuple[float, float]:
    """The values of the query that moved most on a day, of `new` and `old`."""
    date_of_day = FIRST.fromordinal(FIRST.toordinal() + day)
    pairs = [
        tuple(value_of(metric, date_of_day, system, query) for system in ("new", "old"))
        for query in range(QUERIES)
    ]
    return max(pairs, key=lambda pair: abs(pair[0] - pair[1]))


NEW, OLD = {"systems": ["new"]}, {"systems": ["old"]}
NDCG, MRR = {"metrics": ["ndcg@10"]}, {"metrics": ["mrr"]}

QUESTIONS = (
    Question("Which specs are there?", "list_metrics", {}, {"specs.0": lambda: "shop"}),
    Question(
        "What can I ask of the shop?",
        "list_metrics",
        shop(),
        {
            "n_days": lambda: DAYS,
            "n_systems": lambda: 2,
            "systems.0.n_days": lambda: DAYS - 1,
            "systems.1.n_days": lambda: DAYS,
            "segments.country.values": lambda: ["JP", "DE"],
            "rows.0.direction": lambda: "higher",
        },
        (f"{FIRST} to {FIRST.fromordinal(FIRST.toordinal() + DAYS - 1)}",),
    ),
    Question(
        "How good is old in all?",
        "query_metrics",
        shop(**NDCG, **OLD),
        first("value", mean("ndcg@10", "old", ALL_DAYS))
        | first("n_queries", lambda: DAYS * QUERIES),
    ),
    Question(
        "And new?",
        "query_metrics",
        shop(**NDCG, **NEW),
        first("value", mean("ndcg@10", "new", ALL_DAYS))
        | first("n_queries", lambda: (DAYS - 1) * QUERIES),
        (f"new has no rows on {PAUSED}",),
    ),
    Question(
        "NDCG of new in the first week?",
        "query_metrics",
        shop(**NDCG, **NEW, **of_days(WEEKS[0])),
        first("value", mean("ndcg@10", "new", WEEKS[0])),
    ),
    Question(
        "And in the second one?",
        "query_metrics",
        shop(**NDCG, **NEW, **of_days(WEEKS[1])),
        first("value", mean("ndcg@10", "new", WEEKS[1])),
    ),
    Question(
        "Week by week?",
        "query_metrics",
        shop(**NDCG, **NEW, every="week"),
        {f"rows.{n}.value": mean("ndcg@10", "new", days) for n, days in enumerate(WEEKS)},
    ),
    Question(
        "Day by day?",
        "query_metrics",
        shop(**NDCG, **OLD, every="day"),
        {f"rows.{n}.value": mean("ndcg@10", "old", range(n, n + 1)) for n in (0, 5, 13)},
    ),
    Question(
        "By month?",
        "query_metrics",
        shop(**NDCG, **OLD, every="month"),
        first("value", mean("ndcg@10", "old", ALL_DAYS)),
    ),
    Question(
        "MRR on the last day?",
        "query_metrics",
        shop(**MRR, **NEW, **of_days(range(13, 14))),
        first("value", mean("mrr", "new", range(13, 14))),
    ),
    Question(
        "Recall of both?",
        "query_metrics",
        shop(metrics=["recall@5"]),
        {
            "rows.0.value": mean("recall@5", "new", ALL_DAYS),
            "rows.1.value": mean("recall@5", "old", ALL_DAYS),
        },
    ),
    Question(
        "How does new do in Germany?",
        "query_metrics",
        shop(**NDCG, **NEW, segment="country", segment_value="DE"),
        first("value", mean("ndcg@10", "new", ALL_DAYS, "DE")),
    ),
    Question(
        "In each country, in the second week?",
        "query_metrics",
        shop(**NDCG, **NEW, segment="country", **of_days(WEEKS[1])),
        {
            f"rows.{n}.value": mean("ndcg@10", "new", WEEKS[1], country)
            for n, country in enumerate(("DE", "JP"))
        },
    ),
    Question(
        "How many items were shown?",
        "query_metrics",
        shop(metrics=["num_ret"], **OLD),
        first("value", lambda: 12 * DAYS * QUERIES),
    ),
    Question(
        "Is new better?",
        "compare",
        shop(**NDCG, **of_days(range(1))),
        first(
            "difference",
            lambda: mean_of("ndcg@10", "new", range(1)) - mean_of("ndcg@10", "old", range(1)),
        )
        | first("n", lambda: QUERIES)
        | first("verdict", lambda: "better"),
        ("new: ndcg@10 from", "better"),
    ),
    Question(
        "Better in each country, in the second week?",
        "compare",
        shop(**NDCG, **of_days(WEEKS[1]), by=["country"]),
        {
            "rows.1.segment_value": lambda: "DE",
            "rows.1.verdict": lambda: "worse",
            "rows.1.difference": lambda: (
                mean_of("ndcg@10", "new", WEEKS[1], "DE")
                - mean_of("ndcg@10", "old", WEEKS[1], "DE")
            ),
            "rows.2.verdict": lambda: "better",
        },
    ),
    Question(
        "Did new fall from one week to the next?",
        "compare",
        shop(**NDCG, **NEW, periods=[period(days) for days in WEEKS]),
        first(
            "difference",
            lambda: mean_of("ndcg@10", "new", WEEKS[1]) - mean_of("ndcg@10", "new", WEEKS[0]),
        ),
        ("Welch",),
    ),
    Question(
        "Which queries moved most?",
        "compare",
        shop(**NDCG, **of_days(range(13, 14)), movers=3),
        {
            "movers.0.difference": lambda: max(
                (
                    value_of("ndcg@10", FIRST.fromordinal(FIRST.toordinal() + 13), "new", query)
                    - value_of("ndcg@10", FIRST.fromordinal(FIRST.toordinal() + 13), "old", query)
                    for query in range(QUERIES)
                ),
                key=abs,
            )
        },
    ),
    Question(
        "Show me q04 on the day of the fall.",
        "explain_query",
        shop(query="q04", metrics=["mrr"], day=str(FELL)),
        {
            "lists.new.0.item_id": lambda: f"i{order_of(FELL, 'new', 4)[0]}",
            "lists.old.9.item_id": lambda: f"i{order_of(FELL, 'old', 4)[9]}",
            "rows.1.difference": lambda: (
                value_of("mrr", FELL, "new", 4) - value_of("mrr", FELL, "old", 4)
            ),
        },
    ),
    Question(
        "How is NDCG made?",
        "definition",
        shop(metric="ndcg@10"),
        {"rows.0.definition.gain": lambda: "exp", "rows.0.n": lambda: None},
        ("DCG@k / IDCG@k", "row_number() over"),
    ),
)

HARDER = (
    Question(
        "MRR of all days, of which the first had another definition?",
        "query_metrics",
        shop(**MRR, **NEW),
        {
            "rows.0.definition_hash": lambda: "0123456789abcdef",
            "rows.0.value": mean("mrr", "new", range(1)),
            "rows.1.value": mean("mrr", "new", range(1, DAYS)),
        },
        ("2 definitions",),
    ),
    Question(
        "Since when?", "definition", shop(metric="mrr"), {"rows.0.last_date": lambda: str(FIRST)}
    ),
    Question(
        "And next week, which is late?",
        "query_metrics",
        shop(**NDCG, **OLD, start=str(FELL), end="2026-03-23"),
        first("value", mean("ndcg@10", "old", WEEKS[1])),
        ("no rows on 2026-03-16",),
    ),
    Question(
        "On the day that it paused?",
        "query_metrics",
        shop(**NDCG, **of_days(range(3, 4))),
        first("system", lambda: "old"),
    ),
    Question(
        "Is 0.5 of a notebook ours?",
        "reconcile",
        shop(
            metric="mrr",
            value=f"{mean_of('mrr', 'new', range(13, 14)):.6f}",
            system="new",
            **of_days(range(13, 14)),
        ),
        {"fits": lambda: True, **first("value", mean("mrr", "new", range(13, 14)))},
    ),
    Question(
        "How good is the blend of both?",
        "query_metrics",
        shop(metrics=["blend"], **OLD),
        first("value", mean("blend", "old", ALL_DAYS)),
    ),
    Question(
        "Which queries moved the blend?",
        "compare",
        shop(metrics=["blend"], movers=2, **of_days(range(13, 14))),
        {
            "rows.0.value": mean("blend", "new", range(13, 14)),
            "movers.0.value": lambda: moved_most("blend", 13)[0],
            "movers.0.baseline_value": lambda: moved_most("blend", 13)[1],
        },
    ),
    Question(
        "What is the blend?",
        "definition",
        shop(metric="blend"),
        {},
        ("0.7 * ndcg@10 + 0.3 * recall@5", "select"),
    ),
    Question(
        "Of a spec that never ran?", "list_metrics", {"spec": "later"}, {}, ("no row of later",)
    ),
)

REFUSED = (
    Question("Another table", "query_metrics", shop(metrics=["secrets"]), {}, ("unknown metric",)),
    Question("SQL", "query_metrics", shop(metrics=["(select 1)"]), {}, ("unknown metric",)),
    Question(
        "SQL in a segment",
        "query_metrics",
        shop(**NDCG, segment="country'; drop table metrics; --"),
        {},
        ("unknown segment",),
    ),
    Question(
        "SQL in a value",
        "query_metrics",
        shop(**NDCG, segment="country", segment_value="DE' or '1'='1"),
        {},
        ("unknown value of country",),
    ),
    Question(
        "SQL in a day", "query_metrics", shop(**NDCG, start="2026-01-01' or 1=1 --"), {}, ("day",)
    ),
    Question(
        "SQL in a system",
        "compare",
        shop(**NDCG, systems=["new' union select word from secrets --"]),
        {},
        ("unknown system",),
    ),
    Question(
        "SQL in a query",
        "explain_query",
        shop(query="q01') or ('1'='1"),
        {},
        ("has no list",),
    ),
    Question(
        "SQL in a metric", "definition", shop(metric="mrr; drop table metrics"), {}, ("unknown",)
    ),
    Question(
        "SQL in a number", "reconcile", shop(metric="mrr", value="1; select 1"), {}, ("number",)
    ),
    Question(
        "SQL beside",
        "query_metrics",
        shop(**NDCG, sql="select 1"),
        {},
        ("unknown argument 'sql'",),
    ),
    Question("10,000 movers", "compare", shop(**NDCG, movers=10_000), {}, ("0 to 20",)),
    Question("A spec by its file", "list_metrics", {"spec": "/etc/passwd"}, {}, ("unknown spec",)),
    Question("No spec of several", "query_metrics", {**NDCG}, {}, ("name one as spec; known",)),
    Question("No data", "query_metrics", {"spec": "later", **NDCG}, {}, ("no row of later",)),
    Question("A tool to write", "run", {}, {}, ("unknown tool",)),
    Question("A raw query", "query", {"sql": "select 1"}, {}, ("unknown tool",)),
    Question(
        "10,000 lists", "query_metrics", shop(metrics=[["mrr"]] * 10_000), {}, ("metrics.0 must",)
    ),
    Question("No text", "explain_query", shop(query=7), {}, ("error: query must be a text",)),
    Question("A far day", "explain_query", shop(query="q02", day="9999-12-31"), {}, ("no list",)),
    Question(
        "A condition that is none",
        "definition",
        shop(metric="mrr", segment="country"),
        {},
        ("'country'; known: all",),
    ),
)

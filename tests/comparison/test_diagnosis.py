"""`diagnose`: each rule fires where all of its conditions hold, and not a hair beside."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path
from statistics import variance
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.comparison.diagnosis.diagnosis import MARGIN
from sqlmetrics.comparison.diagnosis.log_numbers import log_numbers
from sqlmetrics.comparison.diagnosis.rules import METRICS, ONLINE, RULES, Condition, Rule, fired
from sqlmetrics.comparison.options import Options
from sqlmetrics.engines.database import Database
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.stats import student

HAIR = 1e-6
Numbers = tuple[dict[str, float], dict[str, Any], dict[str, float]]


def numbers(rule: Rule, miss: Condition | None = None) -> Numbers:
    """Values, changes and the baseline's values that just fire a rule; one condition may miss."""
    values: dict[str, float] = {}
    rows: dict[str, Any] = {}
    before: dict[str, float] = {}
    for condition in sorted(
        rule.conditions, key=lambda condition: condition.is_ in ("equal", "half")
    ):
        off = HAIR if condition is miss else 0.0
        if condition.is_ in ("least", "most"):
            values[condition.metric] = condition.limit + (off if condition.is_ == "most" else -off)
        elif condition.is_ == "half":
            values[condition.metric] = values.setdefault(condition.other, 0.5) / 2 + off
        elif condition.is_ == "equal":
            values[condition.metric] = values.setdefault(condition.other, 0.5) + off
        else:
            low, high = {
                "up": (HAIR - 2 * off, 0.1),
                "down": (-0.1, 2 * off - HAIR),
                "flat": (-MARGIN - off, MARGIN),
                "mix": (-0.1, 0.1),
            }[condition.is_]
            row = {"difference": 0.0, "ci_low": low, "ci_high": high, "direction": 1, "n": 100}
            rows[condition.metric] = row
            if condition.is_ == "mix":
                values[condition.metric] = 0.5 + MARGIN + HAIR - 2 * off
                before[condition.metric] = 0.5
    return values, rows, before


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.title)
def test_a_rule_fires_where_all_holds_and_not_a_hair_beside(rule: Rule) -> None:
    messages = fired(rule, *numbers(rule), MARGIN)
    assert len(messages) == len(rule.conditions)
    assert all(
        condition.metric in text for condition, text in zip(rule.conditions, messages, strict=True)
    )
    for miss in rule.conditions:
        assert fired(rule, *numbers(rule, miss), MARGIN) == [], miss


def lists(orders: dict[str, list[str]]) -> pa.Table:
    """The same lists for 40 queries."""
    return pa.Table.from_pylist(
        [
            {"system": system, "query_id": f"q{query}", "item_id": item, "score": -position}
            for system, order in orders.items()
            for query in range(40)
            for position, item in enumerate(order)
        ]
    )


def labels(*items: str) -> pa.Table:
    """The same relevant items for each of them."""
    return pa.Table.from_pylist(
        [
            {"query_id": f"q{query}", "item_id": item, "grade": 1}
            for query in range(40)
            for item in items
        ]
    )


TEN = [f"n{number}" for number in range(10)]


@by_turns(0.9)
def test_new_candidates_that_rank_low(tmp_path: Path) -> None:
    runs = lists({"old": ["a", *TEN], "new": ["a", *TEN, "b"]})
    diagnosis = sm.diagnose(runs, labels("a", "b", "c"), baseline="old")
    pairs = [finding.rule.title for finding in diagnosis if finding.baseline]
    assert pairs == ["more relevant items, same top 10"]
    assert (
        "recall@100 +0.3333 (+0.3333 to +0.3333), ndcg@10 +0.0000" in diagnosis.findings[0].numbers
    )
    assert max(map(len, repr(diagnosis).splitlines())) <= 80
    flipped = sm.diagnose(runs, labels("a", "b", "c"), baseline="new")
    assert [finding.rule.title for finding in flipped if finding.baseline] == [
        "fewer relevant items, same top 10"
    ]
    for name, table in (("runs", runs), ("labels", labels("a", "b", "c"))):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    line = ("diagnose", "runs.parquet", "labels.parquet", "--baseline", "old")
    assert sqlmetrics(*line, folder=tmp_path).stdout == f"{diagnosis!r}\n"


@by_turns(1.8)
def test_days_of_a_system_stand_beside_one_another_as_systems_do(tmp_path: Path) -> None:
    """What is found of two days is what is found of two systems; and in `--dates`."""
    orders = {"2026-01-01": ["a", *TEN], "2026-01-02": ["a", *TEN, "b"]}
    as_systems = sm.diagnose(lists(orders), labels("a", "b", "c"), baseline="2026-01-01")
    rows = [row | {"ds": row["system"], "system": "prod"} for row in lists(orders).to_pylist()]
    other_rows = [row | {"system": "other", "item_id": "a"} for row in rows if row["score"] == 0]
    days = pa.Table.from_pylist([*rows, *other_rows])
    as_days = sm.diagnose(days, labels("a", "b", "c"), date="ds", dates=[*orders], systems=["prod"])
    findings = [
        [(finding.rule.title, finding.system, finding.baseline) for finding in diagnosis]
        for diagnosis in (as_systems, as_days)
    ]
    assert findings[0] == findings[1]
    assert ("more relevant items, same top 10", "2026-01-02", "2026-01-01") in findings[1]
    for name, table in (("runs", days), ("labels", labels("a", "b", "c"))):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    line = ("diagnose", "runs.parquet", "labels.parquet", "--date", "ds", "--systems", "prod")
    completed = sqlmetrics(*line, "--dates", ",".join(orders), folder=tmp_path)
    assert completed.stdout == f"{as_days!r}\n"
    with pytest.raises(sm.SpecError, match="dates compare one system with itself, but there are"):
        sm.diagnose(days, labels("a"), date="ds", dates=[*orders])
    log = spec_of({"old": [(1,)], "new": [(2,)]})
    with pytest.raises(sm.SpecError, match="a diagnosis does not compare days of a click log"):
        sm.diagnose(log, dates=[*orders])


def test_one_system_is_looked_at_by_itself() -> None:
    diagnosis = sm.diagnose(lists({"old": [*TEN, "a"]}), labels("a"))
    titles = {finding.rule.title for finding in diagnosis}
    assert {"good recall, poor order", "relevant items miss the top 5"} <= titles
    assert {"one relevant item per query", "no relevant label outside the lists"} <= titles
    assert "there is only one system" in repr(diagnosis)
    good = sm.diagnose(lists({"old": ["a", "b", "c"]}), labels("a", "b", "c", "d"))
    assert [finding.rule.title for finding in good] == []


@by_turns(1)
def test_systems_without_a_query_in_common_are_looked_at_each_by_itself() -> None:
    """As those of a click log, whose requests have one system each."""
    runs = lists({"old": ["x", "a"], "new": ["x", "a"]}).to_pylist()
    runs = [row for row in runs if (row["query_id"] < "q3") == (row["system"] == "old")]
    diagnosis = sm.diagnose(pa.Table.from_pylist(runs), labels("a"), missing="drop")
    assert {finding.system for finding in diagnosis} == {"old", "new"}
    assert diagnosis.comparison is None
    assert "changes between the systems were not checked: no query has a value of" in repr(
        diagnosis
    )


@by_turns(1.1)
def test_a_mean_that_moved_by_which_queries_were_counted() -> None:
    runs = lists({"old": ["a"], "new": ["a"]}).to_pylist()
    runs = [row for row in runs if row["system"] == "old" or row["query_id"] < "q3"]
    kept = sm.diagnose(runs, labels("a", "b"), baseline="old", missing="drop")
    assert not [finding for finding in kept if "different queries" in finding.rule.title]
    worse = [row | {"item_id": "x"} if row["query_id"] >= "q3" else row for row in runs]
    diagnosis = sm.diagnose(worse, labels("a", "b"), baseline="old", missing="drop")
    (finding,) = [finding for finding in diagnosis if "different queries" in finding.rule.title]
    assert "over the" in finding.numbers


# -- click logs -------------------------------------------------------------------------

Clicked = Sequence[tuple[int, ...]]


def spec_of(requests: Mapping[str, Clicked], *, per_user: int = 2, **options: Any) -> sm.Spec:
    """A log of lists of four items: for each request of a system, the positions clicked."""
    no_user = options.pop("no_user", ())
    rows = [
        {
            "request_id": f"{system}{number}",
            "query_text": "tv",
            "user_id": f"{system} {number // per_user}"
            if per_user and (number, position) not in no_user
            else None,
            "system": system,
            "item_id": f"i{position}",
            "position": position,
            "clicked": int(position in clicked),
            "country": "DE" if number < 30 else "FR",
        }
        for system, lists in requests.items()
        for number, clicked in enumerate(lists)
        for position in range(1, 5)
    ]
    schema = pa.schema([("user_id", pa.string())])
    table = pa.Table.from_pylist(rows)
    if not per_user:
        index = table.column_names.index("user_id")
        table = table.set_column(index, schema.field(0), pa.nulls(len(rows), pa.string()))
    columns: dict[str, Any] = {"clicked": "clicked", "query": "query_text", "user": "user_id"}
    columns |= {"system": "system", "segments": ["country"]}
    return sm.Spec(clicks={"log": {"data": table, "columns": columns}, **options}, metrics=["ctr"])


OLD: Clicked = [(3,), ()] * 50
"""A click at the third position in each second request."""


@by_turns(1)
@pytest.mark.parametrize(
    ("new", "fires"),
    [
        ([(1,), ()] * 50, "better offline, same online"),
        ([(1,), ()] * 42 + [(1,), (1,)] * 8, None),  # above flat, and not surely up
        ([()] * 50 + [(1,), ()] * 25, "better offline, worse online"),
        ([(3,), (3,)] * 50, "same offline, better online"),
        ([(2, 3, 4), ()] * 45 + [()] * 10, "more clicks from fewer requests"),
        (OLD, None),
    ],
)
def test_what_people_click_stands_beside_what_the_labels_say(
    new: Clicked, fires: str | None
) -> None:
    diagnosis = sm.diagnose(spec_of({"new": new, "old": OLD}), baseline="old")
    online = {rule.title for rule in RULES if {*rule.metrics} & {*ONLINE}}
    pairs = [
        finding.rule.title
        for finding in diagnosis
        if finding.baseline and finding.rule.title in online
    ]
    assert pairs == ([fires] if fires else [])
    assert "each request has one system" in repr(diagnosis)
    assert "old: ndcg@10 0.5000, ctr 0.1250, abandonment 0.5000" in repr(diagnosis)
    assert max(map(len, repr(diagnosis).splitlines())) <= 80


def ratio(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The ratio of two sums over users, and the square of its error by the delta method."""
    values = [(a, b) for a, b in values if b]
    n, bottom = len(values), fsum(b for _, b in values)
    overall = fsum(a for a, _ in values) / bottom
    mean = bottom / n
    return overall, variance([(a - overall * b) / mean for a, b in values]) / n


@by_turns(0.6)
@pytest.mark.parametrize(
    "name", engines(["duckdb", "sqlite", "postgres"], now=["duckdb", "sqlite"])
)
@pytest.mark.parametrize("per_user", [0, 3])
def test_rates_and_their_errors_are_those_of_plain_python(
    name: str, per_user: int, servers: Servers
) -> None:
    chance = random.Random(per_user)
    requests: dict[str, Clicked] = {
        system: [tuple(p for p in range(1, 5) if chance.random() < rate) for _ in range(60)]
        for system, rate in (("new", 0.4), ("old", 0.3))
    }
    options = Options(metrics=METRICS, days=None, baseline="old")
    with servers.open(name) as engine:
        database = Database(engine)
        spec = spec_of(requests, per_user=per_user).having(by=["country"])
        numbers = log_numbers(spec, options, database, check=True)
    assert numbers.counted == "users"
    rows_by_key = {
        (row["segment_name"], row["segment_value"], row["metric"]): row for row in numbers.rows
    }
    assert rows_by_key["all", "all", "abandonment"]["direction"] == -1
    half = {"all": (0, 60), "DE": (0, 30), "FR": (30, 60)}
    for value, (first, end) in half.items():
        sums = {system: _sums(lists[first:end], per_user) for system, lists in requests.items()}
        for metric in sums["new"]:
            (new, new_variance), (old, old_variance) = (
                ratio(sums[system][metric]) for system in ("new", "old")
            )
            n, m = (sum(b > 0 for _, b in sums[system][metric]) for system in ("new", "old"))
            df = (new_variance + old_variance) ** 2 / (
                new_variance**2 / (n - 1) + old_variance**2 / (m - 1)
            )
            reach = student.critical(0.95, df) * (new_variance + old_variance) ** 0.5
            row = rows_by_key["all" if value == "all" else "country", value, metric]
            ends = row["statistic"].interval(0.95)
            wanted = (new - old, new - old - reach, new - old + reach, n)
            assert (row["difference"], *ends, row["n"]) == pytest.approx(wanted, rel=1e-9)


def _sums(lists: Clicked, per_user: int) -> dict[str, list[tuple[float, float]]]:
    """Metric -> numerator and denominator of each user, or of each request."""
    sums: dict[str, list[tuple[float, float]]] = {"ctr": [], "abandonment": [], "mrr": []}
    for start in range(0, len(lists), per_user or 1):
        user_lists = lists[start : start + (per_user or 1)]
        hits = [clicked for clicked in user_lists if clicked]
        sums["ctr"].append((sum(map(len, user_lists)), 4 * len(user_lists)))
        sums["abandonment"].append((len(user_lists) - len(hits), len(user_lists)))
        sums["mrr"].append((fsum(1 / clicked[0] for clicked in hits), len(hits)))
    return sums


@by_turns(0.4)
def test_a_log_of_one_system_is_looked_at_by_itself() -> None:
    diagnosis = sm.diagnose(spec_of({"old": OLD}))
    assert {finding.rule.title for finding in diagnosis} == set(), (
        "labels are of the list: all is found"
    )
    assert "there is only one system" in repr(diagnosis)
    assert "labels are clicks on the lists themselves" in " ".join(repr(diagnosis).split())
    pooled = spec_of({"old": OLD, "new": OLD[1:]}, labels={"pool": "query_item"})
    text = " ".join(repr(sm.diagnose(pooled)).split())
    assert "recall, hits and judged items were not checked" in text
    assert "learned from the requests that they judge" in text
    with pytest.raises(sm.InputError, match="this system has no list: unknown system 'nwe'"):
        sm.diagnose(spec_of({"new": OLD, "old": OLD}), baseline="nwe")


@by_turns(1.8)
def test_the_users_of_a_log_are_clusters() -> None:
    """The column that the spec has as `user` is one, by an option and by the spec itself."""
    requests: dict[str, Clicked] = {
        "new": [(1,), (2, 3), (4,), (1,)],
        "old": [(3,), (2,), (4,), (1,)],
    }
    spec = spec_of(requests).having(metrics=["mrr"], online=())
    plain = sm.compare(spec, paired=False).to_dicts()[0]
    of_users = sm.compare(spec, paired=False, cluster="user_id").to_dicts()[0]
    assert of_users["ci_low"] != plain["ci_low"]
    clustered_by_spec = sm.compare(spec.having(cluster="user_id"), paired=False).to_dicts()[0]
    assert clustered_by_spec["ci_low"] == of_users["ci_low"]
    nobody = spec_of(requests, no_user={(0, 1)}).having(metrics=["mrr"], online=())
    alone = spec_of(requests, per_user=0).having(metrics=["mrr"], online=())
    of_nobody, of_each = (
        sm.compare(alone, paired=False, cluster=cluster).to_dicts()[0]
        for cluster in ("user_id", None)
    )
    ends = ("ci_low", "ci_high", "n")  # requests of nobody known are no single user
    assert [of_nobody[name] for name in ends] == pytest.approx([of_each[name] for name in ends])
    text = " ".join(repr(sm.compare(alone, paired=False)).split())
    assert "requests would detect" in text or "requests of baseline" in text
    assert " queries" not in text.partition("p: ")[0]
    remedy = r"differ in user_id: 2(.|\n)*clicks.impressions.where: user_id is not null"
    with pytest.raises(sm.InputError, match=remedy):
        sm.compare(nobody, paired=False, cluster="user_id")
    with pytest.raises(sm.SpecError, match="unknown segment 'user'; did you mean 'user_id'"):
        sm.compare(spec, paired=False, cluster="user")
    with pytest.raises(sm.SpecError, match="unknown segment 'usr_id'; did you mean"):
        sm.compare(spec.having(cluster="user_id"), paired=False, cluster="usr_id")


@by_turns(1.7)
def test_tied_scores_are_counted() -> None:
    """Two of twenty items share a score, or two of twenty-one, which is just too few."""
    alike = {"few": 21, "many": 20}
    runs = [
        {"system": system, "query_id": "q0", "item_id": f"i{i}", "score": float(max(i, 1))}
        for system, n in alike.items()
        for i in range(n)
    ]
    findings = [
        finding
        for finding in sm.diagnose(runs, labels("a"))
        if finding.rule.title == "many tied scores"
    ]
    assert [(finding.system, finding.numbers) for finding in findings] == [
        ("many", "tied items 0.1000")
    ]


@pytest.mark.parametrize(
    ("systems", "baseline", "rule"),
    [
        (("new", "old"), "old", "as its name says"),
        (("challenger", "Control_v2"), "Control_v2", "as its name says"),
        (("candidate", "prod", "oldest"), "prod", "as its name says"),
        (("alpha_old", "alpha_prod", "beta_prod"), "alpha_old", "as its name says"),  # two prods
        (("B", "a", "0"), "a", "as its name says"),
        (("dense", "bm25", "told"), "bm25", "the first by name"),
    ],
)
def test_the_system_whose_name_says_so_is_the_baseline(
    systems: tuple[str, ...], baseline: str, rule: str
) -> None:
    note = f"the baseline is {baseline}, {rule}; name another with --baseline"
    assert usual_baseline(systems) == (baseline, note)
    assert usual_baseline(systems[::-1]) == (baseline, note)


@by_turns(1)
def test_one_rule_chooses_the_baseline_of_all_verbs() -> None:
    rankings, truth = lists({"new": ["a", "b"], "old": ["b", "a"]}), labels("a")
    compared = sm.compare(rankings, truth, "mrr")
    diagnosed = sm.diagnose(rankings, truth).comparison
    reported = sm.report(rankings, truth, ["mrr"]).content
    of_log = sm.diagnose(spec_of({"new": OLD, "old": OLD}))
    assert [compared.baseline, diagnosed and diagnosed.baseline, reported.baseline] == ["old"] * 3
    for notes in (compared.notes, reported.notes, of_log.notes):
        assert "the baseline is old, as its name says; name another with --baseline" in notes
    assert sm.compare(rankings, truth, "mrr", baseline="new").baseline == "new"


@by_turns(1.5)
def test_a_segment_that_is_worse_is_told_alike_by_compare_diagnose_and_report() -> None:
    """What a report's headline says of a spec's segments; found, where the means got better."""
    rows = lists({"new": ["a", "b", "c"], "old": ["c", "a", "b"]}).to_pylist()
    for row in rows:
        number = int(row["query_id"][1:])
        row["country"] = "jp" if number % 4 == 0 else "us"
        if row["country"] == "jp" and row["system"] == "new":
            row["score"] = {"a": -2.0 - number % 8, "b": -1.0, "c": 0.0}[row["item_id"]]
        if row["query_id"] in ("q1", "q2", "q4") and row["system"] == "old":
            row["score"] = {"a": 5.0}.get(row["item_id"], row["score"])
    sources: dict[str, Any] = {"rankings": {"data": pa.Table.from_pylist(rows)}}
    sources["rankings"]["columns"] = {"system": "system"}
    spec = sm.Spec(
        **sources, labels={"data": labels("a")}, metrics=["mrr", "hit@1"], by=["country"]
    )
    compared, diagnosed = sm.compare(spec), sm.diagnose(spec)
    (row,) = compared.worse_slices
    assert (row["segment_value"], row["metric"], row["verdict"]) == ("jp", "mrr", "worse")
    assert {row["segment_name"] for row in compared} == {"all"}, "they are not all listed"
    sentence = "new is worse than old for country = jp: mrr"
    assert f"in a segment: {sentence}" in " ".join(repr(compared).split())
    (finding,) = [finding for finding in diagnosed if finding.rule.title == "worse in a segment"]
    assert finding.numbers.startswith(sentence)
    assert "worse for country = jp: mrr" in " ".join(sm.report(spec).text.split())
    assert not sm.compare(spec.having(by=[])).worse_slices
    listed = sm.compare(spec, by="country")
    for rows, expected in (
        (listed.worse_slices, compared.worse_slices),
        ([row for row in listed if row["segment_name"] == "all"], compared),
    ):  # threads add in any order
        assert [*map(dict, rows)] == [pytest.approx(dict(row)) for row in expected]

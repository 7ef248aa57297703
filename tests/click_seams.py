"""Click logs drawn by lot, stored as people store them, and what plain Python makes of them."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from hashlib import md5
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from seams import FIRST, GAIN, ITEMS, Key, Row, seen_share, source, write_files

from sqlmetrics.proof import reference

METRICS = (
    "ndcg@3",
    "seen_share@2",
    "mrr",
    "ctr@2",
    "abandonment",
    "first_click_rank",
    "time_to_first_click",
    "max_rr",
    "min_rr",
    "p_skip",
    "session_success",
)
GRADES = {"click": 1.0, "purchase": 3.0}
UBI = ("ubi", "hits")
LACKS = {"wide": "time_to_first_click", "ubi": "session_success", "hits": "session_success"}
"""Form -> the metric that it has not the columns for."""
WINDOW = timedelta(minutes=30)
ZONE = timezone(timedelta(hours=8))


@dataclass(frozen=True)
class LogSetup:
    """How a click log is written.

    Attributes:
        form: `events` beside impressions, one `wide` table, or User Behavior Insights: `ubi` with
            impressions as events, `hits` with the lists in the queries alone.
        source: As for rankings.
        database: `duckdb`, `sqlite` or `postgres`.
        time: `text` in UTC, `offset` (a text with one), `timestamp` or `timestamptz`.
        first: The position of the first item.
        runs: `once`, `daily` or `batches`.
    """

    form: str
    source: str
    database: str
    time: str
    first: int
    runs: str


CHOICES: Mapping[str, Sequence[Any]] = {
    "form": ("events", "wide", "ubi", "hits"),
    "source": ("tables", "csv", "spreadsheet", "ndjson", "parquet"),
    "database": ("duckdb", "sqlite", "postgres"),
    "time": ("offset", "timestamptz", "timestamp", "text"),
    "first": (1, 0),
    "runs": ("daily", "batches", "once"),
}


def possible(choice: Mapping[str, Any]) -> bool:
    """As for rankings; UBI is JSON with texts, and its positions start anywhere."""
    form, source, database, time = (choice.get(n) for n in ("form", "source", "database", "time"))
    if source not in (None, "tables") and database not in (None, "duckdb"):
        return False
    if form in UBI and (source not in (None, "ndjson") or database not in (None, "duckdb")):
        return False
    texts = source in ("csv", "spreadsheet", "ndjson") or database == "sqlite" or form in UBI
    return not (texts and time not in (None, "text", "offset"))


@dataclass(frozen=True)
class Log:
    """Requests in order of time, each with its items from the top and what was done.

    Attributes:
        requests: Rows with `request_id`, `moment`, `system`, `items` and `events`, which are
            (item, action, seconds after the request).
    """

    requests: Sequence[Row]

    def expected(self, form: str) -> dict[Key, Row]:
        """Value and queries of each day, system and metric."""
        groups: dict[tuple[date, str], list[Row]] = defaultdict(list)
        for request in self.requests:
            # the schema of UBI knows no systems: all are the spec's own
            system = "seams" if form in UBI else request["system"]
            groups[request["moment"].date(), system].append(request)
        rows: dict[Key, Row] = {}
        for (day, system), requests in groups.items():
            for metric, (top, bottom) in _sums(requests, form).items():
                name, _, k = metric.partition("@")
                if bottom:
                    key = (day, system, "all", "all", name, int(k or 0))
                    # a request is missing for no system but its own
                    rows[key] = {"value": top / bottom, "n_missing": 0}
        return rows


def metrics_of(form: str) -> list[str]:
    """The metrics of a form of log."""
    return [metric for metric in METRICS if metric != LACKS.get(form)]


def session(request: Row) -> str:
    """The visit of a request."""
    return f"s{int(request['request_id'][1:]) % 3}"


def grades_of(request: Row, form: str) -> dict[str, float]:
    """Item -> the grade of the best thing that was done with it in time."""
    grades: dict[str, float] = {}
    for item, action, seconds in request["events"]:
        if form == "wide" or 0 <= seconds <= WINDOW.total_seconds():
            grades[item] = max(grades.get(item, 0.0), GRADES[action])
    return grades


def _sums(requests: Sequence[Row], form: str) -> dict[str, tuple[float, float]]:
    """Metric -> numerator and denominator over requests."""
    parts: dict[str, list[tuple[float, float]]] = defaultdict(list)
    sessions: dict[str, set[bool]] = defaultdict(set)
    for request in requests:
        items = request["items"]
        within = form == "wide"  # a wide table has no times of events
        events = [
            (item, action, seconds)
            for item, action, seconds in request["events"]
            if within or 0 <= seconds <= WINDOW.total_seconds()
        ]
        clicked = [item for item in items if any(e[0] == item and e[1] == "click" for e in events)]
        parts["ctr@2"].append((len(set(clicked) & set(items[:2])), min(2, len(items))))
        parts["abandonment"].append((float(not clicked), 1.0))
        if clicked:
            first_rank, last_rank = (items.index(clicked[end]) + 1 for end in (0, -1))
            parts["first_click_rank"].append((first_rank, 1.0))
            parts["max_rr"].append((1 / first_rank, 1.0))
            parts["min_rr"].append((1 / last_rank, 1.0))
            parts["p_skip"].append((last_rank - len(clicked), last_rank))
            if not within:
                first = min(seconds for _, action, seconds in events if action == "click")
                parts["time_to_first_click"].append((first, 1.0))
        sessions[session(request)].add(bool(clicked))
        grades = grades_of(request, form)
        listed = [grades.get(item, 0.0) for item in items]
        for metric, value in (
            ("ndcg@3", reference.ndcg(listed, listed, k=3, ideal="labels_at_k", **GAIN)),
            ("seen_share@2", seen_share([{"item_id": item} for item in items], grades)),
            ("mrr", reference.mrr(listed, listed, k=None, rel=1.0, rr_of="first")),
        ):
            if grades and value is not None:  # a request without an answer has no label
                parts[metric].append((value, 1.0))
    parts["session_success"] = [
        (float(any(session_clicks)), 1.0) for session_clicks in sessions.values()
    ]
    sums = {}
    for metric in metrics_of(form):
        fractions = parts.get(metric, [])
        sums[metric] = (
            math.fsum(top for top, _ in fractions),
            math.fsum(bottom for _, bottom in fractions),
        )
    return sums


PROPENSITIES = {1: 1.0, 2: 0.5, 3: 0.4, 4: 0.25}


def unshown(spec: Row, log: Log, form: str, folder: Path) -> tuple[Row, float, float]:
    """The spec that asks what each list upside down would have got; that, and what was shown."""
    rows = [
        {"request": request["request_id"], "item": item, "score": position}
        for request in log.requests
        for position, item in enumerate(request["items"])
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "upside_down.parquet")
    columns = {"query": "request", "item": "item", "score": "score"}
    counterfactual = {
        "rankings": {"file": "upside_down.parquet", "columns": columns},
        "metrics": ["sum_reciprocal_rank"],
        "estimators": ["ips"],
    }
    propensity = {"method": "given", "given": PROPENSITIES}
    clicks = {**spec["clicks"], "propensity": propensity, "counterfactual": counterfactual}
    total = shown_total = 0.0
    for request in log.requests:
        items = request["items"]
        for position, item in enumerate(items, 1):
            if item in _clicked(request, within=form == "wide"):
                total += 1 / (len(items) + 1 - position) / PROPENSITIES[position]
                shown_total += 1 / position / PROPENSITIES[position]
    n = len(log.requests)
    return {**spec, "clicks": clicks}, total / n, shown_total / n


def _clicked(request: Row, *, within: bool) -> set[str]:
    """The items of which a click counts; a wide table has no times of events."""
    return {
        item
        for item, action, seconds in request["events"]
        if action == "click" and (within or 0 <= seconds <= WINDOW.total_seconds())
    }


def position_ctr(log: Log, form: str) -> float | None:
    """The log-likelihood of the click rate by position; None if no request is held out."""
    days = sorted({request["moment"].date() for request in log.requests})

    def is_held(request: Row) -> bool:
        if len(days) > 1:  # the last fifth of 2 to 4 days
            return request["moment"].date() == days[-1]
        return md5(request["request_id"].encode()).hexdigest()[0] in "012"

    rows = [
        (position, item in _clicked(request, within=form == "wide"), is_held(request))
        for request in log.requests
        for position, item in enumerate(request["items"])
    ]
    held = [row for row in rows if row[2]]
    learned = [row for row in rows if not row[2]]
    if not held or not any(row[1] for row in learned):
        return None
    mean = (sum(row[1] for row in learned) + 0.5) / (len(learned) + 1)
    total = 0.0
    for position, is_clicked, _ in held:
        clicks = [row[1] for row in learned if row[0] == position]
        rate = (sum(clicks) + 10 * mean) / (len(clicks) + 10)
        total += math.log(rate if is_clicked else 1 - rate)
    return total / len(held)


def random_log(chance: random.Random) -> Log:
    """A few days; systems start and stop, clicks come late or on the next day."""
    days = [FIRST + timedelta(number) for number in range(chance.randint(2, 4))]
    requests = []
    for system in ("new", "old's"):
        for day in chance.sample(days, chance.randint(1, len(days))):
            for _ in range(chance.randint(1, 4)):
                items = chance.sample(ITEMS, chance.randint(1, 4))
                second = chance.choice([0, 3600, 57600, 86390])
                at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(seconds=second)
                waits = chance.sample([1, 5, 60, 1799, 1801, 90000, -5], chance.randint(0, 3))
                requests.append(
                    {
                        "request_id": f"r{len(requests)}",
                        "moment": at,
                        "system": system,
                        "items": items,
                        "events": [
                            (chance.choice(items), chance.choice(["click", "click", "purchase"]), w)
                            for w in waits
                        ],
                    }
                )
    for day in {request["moment"].date() for request in requests}:  # one without is refused
        first = next(request for request in requests if request["moment"].date() == day)
        first["events"].append((first["items"][0], "click", 5))
    return Log(requests)


def store(setup: LogSetup, log: Log, folder: Path, url: str) -> Row:
    """Write a log, and give the spec that reads it."""
    write_files(folder / "metrics")
    spec: Row = {
        "version": 1,
        "name": "seams",
        "metrics_from": "metrics",
        "metrics": metrics_of(setup.form),
        "output": {"relation": "metrics_of_seams"},
    }
    clicks: Row = {"labels": {"grades": GRADES}, "cleaning": {"attribution_window": "30m"}}
    columns = {"request": "request_id", "item": "item_id"}
    if setup.form in UBI:
        clicks |= _ubi(setup, log, folder, url)
    else:
        impressions = [
            {
                "request_id": request["request_id"],
                "item_id": item,
                "position": position + setup.first,
                "half": position + 0.5,
                "system": request["system"],
                "visit": session(request),
                "happened": _time(setup, request["moment"]),
                **(_flags(request, item) if setup.form == "wide" else {}),
            }
            for request in log.requests
            for position, item in enumerate(request["items"])
        ]
        if has_no_time(setup):
            impressions.append(
                {**impressions[0], "request_id": "of no time", "happened": "yesterday"}
            )
        optional_columns = {"position": "position", "system": "system", "time": "happened"}
        optional_columns |= {"session": "visit"}
        if setup.form == "wide":
            optional_columns |= {"clicked": "is_click", "actions": {"purchase": "is_purchase"}}
        name = "log" if setup.form == "wide" else "impressions"
        clicks[name] = source(setup, name, impressions, folder, url)
        clicks[name] |= {"columns": {**columns, **optional_columns}, "first_position": setup.first}
    if setup.form == "events":
        events = [
            {
                "request_id": request["request_id"],
                "item_id": item,
                "action": action,
                "happened": _time(setup, request["moment"] + timedelta(seconds=seconds)),
            }
            for request in log.requests
            for item, action, seconds in request["events"]
        ]
        clicks["events"] = source(setup, "events", events, folder, url)
        clicks["events"]["columns"] = {**columns, "action": "action", "time": "happened"}
    return {**spec, "clicks": clicks}


def has_no_time(setup: LogSetup) -> bool:
    """Whether an impression has a text as time that is none; it counts nowhere, and is told."""
    return setup.time in ("text", "offset") and setup.form not in UBI


def misread(spec: Row) -> Iterator[Row]:
    """The same log with positions that would count wrongly."""
    name = "log" if "log" in spec["clicks"] else "impressions"
    if name not in spec["clicks"]:
        return
    log_source = spec["clicks"][name]
    wrong = [{"columns": {**log_source["columns"], "position": "half"}}]
    if log_source["first_position"] == 0:
        wrong.append({"first_position": 1})
    for changed in wrong:
        yield {**spec, "clicks": {**spec["clicks"], name: {**log_source, **changed}}}


def with_propensities(spec: Row) -> Row:
    """The same log, of whose positions it is known how often they are looked at."""
    propensity = {"method": "given", "given": {1: 1.0, 2: 0.5, 4: 0.25}}
    return {**spec, "clicks": {**spec["clicks"], "propensity": propensity}}


def _flags(request: Row, item: str) -> Row:
    actions = {action for event_item, action, _ in request["events"] if event_item == item}
    return {"is_click": int("click" in actions), "is_purchase": int("purchase" in actions)}


def _time(setup: LogSetup, moment: datetime) -> Any:
    return {
        "text": moment.replace(tzinfo=None).isoformat(" "),
        "offset": moment.astimezone(ZONE).isoformat(),
        "timestamp": moment.replace(tzinfo=None),
        "timestamptz": moment.astimezone(ZONE),
    }[setup.time]


def _ubi(setup: LogSetup, log: Log, folder: Path, url: str) -> Row:
    """Queries and events as OpenSearch writes them; impressions are events too."""

    def moment(at: datetime) -> str:
        text = at.astimezone(ZONE if setup.time == "offset" else UTC).isoformat()
        return text.replace("+00:00", "Z")

    queries, events = [], []
    for request in log.requests:
        ids = {"query_id": request["request_id"], "application": request["system"]}
        ids["client_id"] = "c"
        text = f"text {request['request_id']}"
        hits = {"query_response_hit_ids": request["items"]} if setup.form == "hits" else {}
        query = {**ids, "user_query": text, "timestamp": moment(request["moment"])}
        queries.append({**query, **hits})
        shown_items = request["items"] if setup.form == "ubi" else []
        impressions = [(item, "impression", 0) for item in shown_items]
        for item, action, seconds in [*impressions, *request["events"]]:
            at = moment(request["moment"] + timedelta(seconds=seconds))
            position = request["items"].index(item) + setup.first
            about = {"object": {"object_id": item}, "position": {"ordinal": position}}
            events.append(
                {**ids, "action_name": action, "timestamp": at, "event_attributes": about}
            )
    return {
        "format": "ubi",
        "requests": source(setup, "ubi_queries", queries, folder, url),
        "events": source(setup, "ubi_events", events, folder, url),
    }

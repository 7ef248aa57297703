"""Which columns of its sources each column of a job's tables reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import is_column_role
from sqlmetrics.catalog.online import Online, online
from sqlmetrics.clicks import ubi
from sqlmetrics.engines.url import (
    FILES,
    ONE_DATABASE,
    PLAIN_SCHEMES,
    PORTS,
    SCHEMA,
    USUAL_SCHEMAS,
    ConnectionURL,
)
from sqlmetrics.evaluation.inputs.sources import is_file_name
from sqlmetrics.jobs.schema import columns_for, targets
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.click_log import NEEDS, QUERY_TEXT, Clicks
from sqlmetrics.spec.segments import KINDS, QUERY_LENGTH, RELEVANT_LABELS
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import parts
from sqlmetrics.sql.user_sql import columns_in, condition_columns, names_in

# Which columns of a click log decide the numbers of a job.

SourceColumn = tuple[Source, str]
"""A source of a spec, and a column of it."""

ColumnsByName = Mapping[str, list[SourceColumn]]
"""A column of the output, or of a metric -> what it reads."""

_UBI = {
    "request": "query_id",
    "query": "user_query",
    "item": "event_attributes",
    "position": "event_attributes",
    "action": "action_name",
    "user": "client_id",
    "time": "timestamp",
}
"""Role -> the column that has it in User Behavior Insights."""

_ROLES = {
    "requests": ["results"],
    "visit": ["time", "query", "session", "user"],
    "timed session": ["time", "session"],
}
"""What a metric needs of a log -> the roles of its columns, where they are called otherwise."""

_IMPRESSION_ROLES = ("request", "query", "item", "position", "action")
"""Roles that decide what was shown, and what was done with it."""


def source_columns(source: Source | None, roles: Iterable[str]) -> list[SourceColumn]:
    """The columns of a source that have these roles, as far as it has them.

    Args:
        source: Of a spec; None for one that it has not.
        roles: Like `query` and `item`.
    """
    if source is None:
        return []
    names = [getattr(source.columns, role, None) for role in roles]
    return [(source, str(name)) for name in names if name]


def log_columns(spec: Spec) -> tuple[ColumnsByName, ColumnsByName]:
    """What the keys and the metrics of a click log read.

    Args:
        spec: With a click log.

    Returns:
        Those of `metric_date`, `system` and `query_id`, and those of each metric.
    """
    clicks = spec.clicks
    if clicks is None:
        return {}, {}
    key_roles = {"metric_date": ["time", "day"] if clicks.daily else []}
    key_roles |= {"system": ["system"], "query_id": ["request"]}
    keys = {
        column: [*_of_log(clicks, roles, without=_joined(clicks))]
        for column, roles in key_roles.items()
    }
    judged = _judged_actions(clicks)
    curves = [*_of_propensities(spec, clicks)]
    judging_curves = curves if clicks.labels.corrects else []
    by_metric = {
        measure.column: [
            *_log_metric(clicks, judged, ["query"] * clicks.labels.pools),
            *judging_curves,
        ]
        for measure in spec.measures
    }
    for text in spec.online:
        metric = online(text)
        by_metric[metric.column] = [*_log_metric(clicks, *_online(clicks, metric))]
    unshown = clicks.counterfactual
    if unshown is not None:
        scores = ["propensity_score", "list_propensity_score"]
        roles = ["query", "item", "order", "position", "probability"]
        lists = source_columns(unshown.source, roles)
        weighed = [] if unshown.policy else curves
        estimated = [*_log_metric(clicks, [CLICK], ["query", *scores]), *weighed, *lists]
        by_metric |= {metric.column: estimated for metric in spec.estimated}
    return keys, by_metric


def _joined(clicks: Clicks) -> Sequence[str]:
    """The tables whose rows only meet those of requests: they decide no key."""
    return ["events"] if clicks.impressions is not None and clicks.format != "ubi" else []


def _of_propensities(spec: Spec, clicks: Clicks) -> Iterator[SourceColumn]:
    """What tells one curve of propensities from another, and which lists stood in random order."""
    yield from log_segment(spec, clicks.propensity.by or "")
    log = clicks.log or clicks.impressions
    if log is not None:
        yield from ((log, name) for name in condition_columns(clicks.propensity.randomised))


def log_segment(spec: Spec, name: str) -> Iterator[SourceColumn]:
    """What a segment of a click log reads.

    Args:
        spec: With a click log.
        name: A column, or `query_text`.
    """
    clicks = spec.clicks
    if clicks is not None and name == QUERY_TEXT:
        yield from _of_log(clicks, ["query"])
    elif clicks is not None:
        for source in clicks.sources.values():
            user = getattr(source.columns, "user", None)
            if name in (*getattr(source.columns, "segments", ()), user):
                yield source, name


def _judged_actions(clicks: Clicks) -> Sequence[str]:
    """The actions that make labels."""
    if not clicks.labels.pools:
        return [*clicks.labels.grades]
    return [PURCHASE if clicks.labels.rate == "purchase_rate" else CLICK]


def _online(clicks: Clicks, metric: Online) -> tuple[Sequence[str], Sequence[str]]:
    """The actions and the further roles that a metric of the log itself reads."""
    actions = [CLICK] if metric.of_clicks else []
    actions += [PURCHASE] if metric.of_purchases else []
    actions += [metric.action] if metric.action else []
    actions += clicks.success_actions if metric.of_success else []
    needs = metric.metric.needs
    return actions, _ROLES.get(needs, [needs] if needs else [])


def _log_metric(
    clicks: Clicks, actions: Sequence[str], roles: Sequence[str]
) -> Iterator[SourceColumn]:
    """What decides a metric: what was shown and done, and what the cleaning looks at."""
    cleaning = clicks.cleaning
    cleaned = [role for name, needed in NEEDS.items() if getattr(cleaning, name) for role in needed]
    dated = ["time"] * bool(clicks.evaluation or clicks.labels.window)
    wanted = dict.fromkeys(
        [*_IMPRESSION_ROLES[:1], *_IMPRESSION_ROLES[2:], *roles, *cleaned, *dated]
    )
    yield from _of_log(clicks, wanted)
    if clicks.log is not None:
        column_by_action = clicks.log.columns.column_by_action
        looked_at = dict.fromkeys([*actions, *[CLICK] * (cleaning.unseen is not None)])
        yield from (
            (clicks.log, column_by_action[action])
            for action in looked_at
            if action in column_by_action
        )


def _of_log(
    clicks: Clicks, roles: Iterable[str], without: Sequence[str] = ()
) -> Iterator[SourceColumn]:
    """The columns of all its tables, but for some, that have these roles."""
    for name, source in clicks.sources.items():
        if name in without:
            continue
        if clicks.format != "ubi":
            yield from source_columns(source, roles)
        else:
            columns = dict.fromkeys(_UBI.get(role, "") for role in roles)
            log_columns = [*ubi.COLUMNS[name], *[ubi.HITS] * (clicks.lists_from == "hit_ids")]
            yield from ((source, column) for column in columns if column in log_columns)


# Tables and files by the names under which catalogues of lineage know them.

_URI = re.compile(r"([a-z][a-z0-9+.-]+://[^/]*)/(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Dataset:
    """A table or a file.

    Attributes:
        namespace: Where it is, like `postgres://db:5432`.
        name: Its name there, like `shop.public.rankings`.
        relation: As the spec names it.
        columns: Its columns and their types, where they are known without a look at it.
    """

    namespace: str
    name: str
    relation: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


def inputs(spec: Spec, url: ConnectionURL) -> list[Dataset]:
    """What a spec reads, each once: tables, files, and the tables that its queries name.

    Args:
        spec: What is asked.
        url: Where its tables are.
    """
    datasets = (dataset for source in sources_of(spec) for dataset in _read(source, url))
    return list({(dataset.namespace, dataset.name): dataset for dataset in datasets}.values())


def sources_of(spec: Spec) -> list[Source]:
    """The sources of a spec, as far as it has them."""
    if spec.clicks is None:
        sources: list[Source | None] = [spec.rankings, spec.labels, spec.queries, spec.items]
    else:
        unshown = spec.clicks.counterfactual.source if spec.clicks.counterfactual else None
        log_sources = [*spec.clicks.sources.values(), spec.clicks.ranked, unshown]
        sources = [*log_sources, spec.queries, spec.items]
    return [source for source in sources if source is not None]


def outputs(spec: Spec, url: ConnectionURL) -> list[Dataset]:
    """The tables that a run of a spec writes."""
    kinds = {
        table: {name: column.type for name, column in columns.items()}
        for table, columns in columns_for(spec).items()
    }
    return [table_dataset(name, url, kinds[table]) for table, name in targets(spec).items()]


def _read(source: Source, url: ConnectionURL) -> Iterator[Dataset]:
    if source.file is not None:
        yield file_dataset(source.file)
    elif source.relation is not None:
        yield table_dataset(source.relation, url)
    elif source.sql is not None:
        for name in names_in(source.sql) or ():
            yield (
                file_dataset(name.strip('"')) if is_file_name(name) else table_dataset(name, url)
            )


def file_dataset(path: str) -> Dataset:
    """A file, or what a URI names."""
    if match := _URI.fullmatch(path):
        return Dataset(match[1], match[2], path)
    return Dataset("file", str(Path(path).absolute()), path)


def table_dataset(
    relation: str, url: ConnectionURL, kind_by_column: Mapping[str, str] | None = None
) -> Dataset:
    """A table by all parts of its name; those that a connection says stand before its own."""
    scheme = PLAIN_SCHEMES.get(url.scheme, url.scheme)
    database, schema = url.parts
    if scheme in FILES:
        path = url.path if url.in_memory else str(Path(url.path).absolute())
        namespace, database, schema = f"{scheme}://{path}", Path(url.path).stem, ""
    else:
        port = url.port or PORTS.get(scheme)
        namespace = f"{scheme}://{url.host}" + (f":{port}" if port else "")
    schema = str(url.options.get(SCHEMA) or schema or USUAL_SCHEMAS.get(scheme, ""))
    before = [] if scheme in ONE_DATABASE else [database, *[schema] * bool(schema)]
    name_parts = parts(relation)
    name = [*before[: max(0, len(before) + 1 - len(name_parts))], *name_parts]
    return Dataset(namespace, ".".join(filter(None, name)), relation, kind_by_column or {})


NUMBERS = ("value", "numerator", "denominator")
"""Columns of the fact table that metrics decide."""

Read = tuple[Dataset, str]
"""A table or file, and a column of it."""


def columns_read(spec: Spec, url: ConnectionURL) -> Mapping[str, Mapping[str, list[Read]]]:
    """Table of the output -> its column -> what it reads.

    A metric reads what decides it. Of rankings and labels: queries, items, what sorts a list,
    grades and weights, and what is known of items where it asks for that. Of a click log: the
    request, the query, the item, where it stood, and what was done. Nothing is said of a column
    of a query that cannot be followed, as through `select *`.

    Args:
        spec: What is asked.
        url: Where its tables are.
    """
    keys, by_metric = _list_columns(spec) if spec.clicks is None else log_columns(spec)
    weights = source_columns(spec.queries, ["query", "weight"]) if _is_weighted(spec) else []
    by_metric = {name: [*columns, *weights] for name, columns in by_metric.items()}
    every = [column for columns in by_metric.values() for column in columns]
    facts = {name: keys[name] for name in ("metric_date", "system")}
    facts |= {"segment_value": list(_segments(spec)), **dict.fromkeys(NUMBERS, every)}
    pooled = {measure.column for measure in spec.measures if measure.metric.pooled}
    of_queries = {
        measure.column: by_metric[measure.column]
        for measure in spec.measures
        if measure.column not in pooled
    }
    columns_by_table = {"facts": facts, "per_query": {**keys, **of_queries}}
    read_by_table = {
        table: {name: _followed(columns, url) for name, columns in columns_by_name.items()}
        for table, columns_by_name in columns_by_table.items()
    }
    return {
        table: {name: columns for name, columns in read.items() if columns}
        for table, read in read_by_table.items()
    }


def filters_read(spec: Spec, url: ConnectionURL) -> list[Read]:
    """What decides which rows count: the columns of each `where`, and of a log's test traffic.

    Args:
        spec: What is asked.
        url: Where its tables are.
    """
    columns = [
        (source, name) for source in sources_of(spec) for name in condition_columns(source.where)
    ]
    if spec.clicks is not None:
        log = spec.clicks.log or spec.clicks.impressions
        test_columns = condition_columns(spec.clicks.cleaning.test)
        columns += [(log, name) for name in test_columns if log is not None]
    return _followed(columns, url)


def _is_weighted(spec: Spec) -> bool:
    return spec.queries is not None and spec.queries.columns.weight is not None


def _list_columns(spec: Spec) -> tuple[ColumnsByName, ColumnsByName]:
    """What keys and metrics of rankings and labels read."""
    roles = {"metric_date": "date", "system": "system", "query_id": "query"}
    keys = {column: source_columns(spec.rankings, [role]) for column, role in roles.items()}
    return keys, {measure.column: list(_metric(spec, measure)) for measure in spec.measures}


def _metric(spec: Spec, measure: Measure) -> Iterator[SourceColumn]:
    """What decides a metric."""
    yield from source_columns(spec.rankings, ["query", "item", "order", "weight"])
    needs = list(spec.needs(measure))
    group = ["group"] * ("labels.group" in needs)
    truth = spec.labels or spec.rankings
    columns = spec.truth.columns
    names = [getattr(columns, role) for role in ("query", "item", "grade", *group)]
    label_roles = (need.removeprefix("labels.") for need in needs if need.startswith("labels."))
    names += [columns.named(role) for role in filter(is_column_role, label_roles)]
    yield from ((truth, str(name)) for name in names if name)
    query_roles = [need.partition(".")[2] for need in needs if need.startswith("queries.")]
    if spec.queries is not None and query_roles:
        yield from source_columns(spec.queries, ["query"])
        yield from ((spec.queries, str(spec.queries.columns.named(role))) for role in query_roles)
    if any(need.startswith("day.") for need in needs):
        yield from source_columns(spec.rankings, ["date"])
    item_roles = [
        role for table, _, role in (need.partition(".") for need in needs) if table == "items"
    ]
    if item_roles:
        yield from source_columns(spec.items, dict.fromkeys(["item", *item_roles]))
    if spec.items is not None:
        roles = filter(is_column_role, item_roles)
        yield from ((spec.items, str(spec.items.columns.named(role))) for role in roles)


def _segments(spec: Spec) -> Iterator[SourceColumn]:
    """What decides the segment of a query."""
    lists = spec.rankings if spec.clicks is None else None
    for name in spec.by:
        kind = spec.segments.get(name, "")
        if kind == RELEVANT_LABELS:
            yield from source_columns(spec.labels or lists, ["query", "grade"])
        elif kind in KINDS:
            role = "text" if kind == QUERY_LENGTH else "weight"
            yield from source_columns(spec.queries or lists, ["query", role])
        elif kind or name in getattr(spec.queries and spec.queries.columns, "segments", ()):
            yield from source_columns(spec.queries, ["query"])
            attributes = spec.queries or lists
            if attributes is not None:
                yield from ((attributes, column) for column in condition_columns(kind) or [name])
        elif lists is not None:
            yield lists, name
        else:
            yield from log_segment(spec, name)


def _followed(columns: Iterable[SourceColumn], url: ConnectionURL) -> list[Read]:
    """Columns of tables and files, through queries, each once and in its order."""
    read = [pair for source, name in columns for pair in _tables_of(source, name, url)]
    return list(
        {
            (dataset.namespace, dataset.name, name): (dataset, name) for dataset, name in read
        }.values()
    )


def _tables_of(source: Source, column: str, url: ConnectionURL) -> Iterator[Read]:
    """A column of a source, through its query."""
    if source.file is not None:
        yield file_dataset(source.file), column
    elif source.relation is not None:
        yield table_dataset(source.relation, url), column
    elif source.sql is not None:
        for table, name in columns_in(source.sql, column):
            is_file = is_file_name(table)
            yield file_dataset(table) if is_file else table_dataset(table, url), name

"""What the lists look like, over all queries or a sample: metrics at each cutoff, ties, tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff, without_cutoff
from sqlmetrics.comparison.design import design
from sqlmetrics.comparison.findings import comparable
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.page.content import ALL, Content, Profile
from sqlmetrics.comparison.statements import Statements, columns_stage, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.evaluation.execution import USUALLY, executing, result_of, run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.segments import Segments
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.ties import tied_rows
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Column
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.tables.tabular import Row

# A sample of the queries, the same each time, as tables that last as long as a block.

LISTS = 20_000
"""Of about so many lists at the most is what is looked at again and again."""

LEAST = 50
"""So many queries have a part in it at the least."""


@dataclass(frozen=True)
class Sample:
    """Which queries are looked at.

    Attributes:
        n_queries: How many.
        ids: Their ids as texts; none if it is all of them.
    """

    n_queries: int
    ids: tuple[str, ...] = ()


def draw_sample(statements: Statements) -> Sample:
    """All queries, or the first ones by the hash of their ids.

    Args:
        statements: The statements of a comparison, while the values of queries are kept.
    """
    translation = statements.engine.translation
    stages = [*statements.script.stages]
    n_lists = int(statements.apart(stages, "select count(*) as n\nfrom per_query")[0]["n"])
    if n_lists <= LISTS:
        distinct = "select count(distinct query_id) as n\nfrom per_query"
        return Sample(int(statements.apart(stages, distinct)[0]["n"]))
    # one look at the queries: how many there are says how many of them are drawn
    of_query = sums_stage("ids", "one row per query", ["query_id"], [], "per_query")
    total = columns_stage("total", "all queries", [Column("count(*)", "n_queries")], "ids")
    hashed = translation.expression(translation.dialect.hashed, "cast(query_id as varchar)")
    first = (
        "select\n    cast(query_id as varchar) as query_id,\n    n_queries\n"
        f"from ids\ncross join total\norder by {hashed} asc\nlimit {LISTS}"
    )
    rows = statements.apart([*stages, of_query, total], first)
    most = max(LEAST, int(rows[0]["n_queries"]) * LISTS // n_lists)
    ids = tuple(str(row["query_id"]) for row in rows[:most])
    return Sample(len(ids), ids)


@contextmanager
def keep_sample(spec: Spec, sample: Sample, engine: Database) -> Iterator[Spec]:
    """The spec on the sample alone, while its tables are there.

    Args:
        spec: What is asked.
        sample: Which queries.
        engine: Where the tables are.
    """
    if not sample.ids:
        yield spec
        return
    tables = opened(spec, engine)
    with ExitStack() as stack:
        changed: dict[str, Any] = {}
        for table in ("rankings", "labels"):
            if getattr(spec, table) is not None:
                name = engine.free_name(f"sqlmetrics_{table}")
                keep = _part(spec, tables, table, sample.ids, engine)
                dialect = engine.translation.dialect
                stack.enter_context(
                    engine.temporary(f"{dialect.keep} {name} as\n{keep}", f"{dialect.drop} {name}")
                )
                changed[table] = _moved(getattr(spec, table), name)
        if spec.rankings.fuse:
            names = {*Segments(spec).of("rankings")}
            changed["segments"] = {
                name: f"{segment(name)} = 'true'" if name in names else text
                for name, text in spec.segments.items()
            }
        yield spec.having(**changed)


def _part(spec: Spec, tables: Tables, table: str, ids: Sequence[str], engine: Database) -> str:
    """The rows of some queries of a table."""
    source = getattr(spec, table)
    condition = engine.translation.condition(tables.condition(table, source))
    source_sql = source_text(tables.protected(getattr(tables, table)), condition)
    names = ", ".join(map(literal, ids))
    column = f"cast({identifier(source.columns.query)} as varchar)"
    return f"select *\nfrom {source_sql}\nwhere {column} in ({names})"


def _moved(source: Any, name: str) -> Any:
    """The source, whose rows are now in another table."""
    location = {"relation": name, "file": None, "sql": None, "data": None, "where": None}
    update: dict[str, Any] = {
        key: value for key, value in location.items() if key in type(source).model_fields
    }
    if getattr(source, "fuse", ()):  # whose rows they are already, with days in place of times
        update |= {"fuse": (), "fused_only": False, "time_zone": None}
    return source.model_copy(update=update)


def _named(roles: Sequence[str], columns: Any, relation: Relation) -> str:
    """The columns of some roles, where lists or a format have others by the names of a spec."""
    name_by_role = {role: getattr(columns, role) for role in roles}
    column_by_role = name_by_role | {
        role: name for role, name in relation.columns if role in name_by_role
    }
    return ", ".join(
        identifier(name)
        if name == name_by_role[role]
        else f"{identifier(name)} as {identifier(name_by_role[role])}"
        for role, name in column_by_role.items()
    )


@contextmanager
def all_labelled(spec: Spec, engine: Database) -> Iterator[Spec | None]:
    """The spec with the highest grade for all that has no label, while its table is there.

    Args:
        spec: What is asked.
        engine: Where the tables are.

    Yields:
        The spec; None where labels are texts, hold of some days alone, or no table can be made.
    """
    dialect, source = engine.translation.dialect, spec.labels
    if source is None or not dialect.keep or source.grades or source.columns.date or source.lists:
        yield None
        return
    label_columns, tables = source.columns, opened(spec, engine)
    sql_by_table = {
        table: source_text(
            tables.protected(getattr(tables, table)),
            engine.translation.condition(tables.condition(table, getattr(spec, table))),
        )
        for table in ("rankings", "labels")
    }
    columns = spec.rankings.columns
    ids = _named(("query", "item"), columns, tables.rankings)
    labelled = _named(("query", "item", "grade"), label_columns, tables.labels)
    query, item = (identifier(getattr(columns, role)) for role in ("query", "item"))
    names = [identifier(getattr(label_columns, role)) for role in ("query", "item", "grade")]
    keep = (
        f"with\n\nlabelled as (\n    select {labelled}\n    from {sql_by_table['labels']}\n),\n\n"
        f"shown_items as (\n    select distinct {ids}\n    from {sql_by_table['rankings']}\n)\n\n"
        "select *\nfrom labelled\nunion all\n"
        f"select shown_items.{query}, shown_items.{item}, best.highest\nfrom shown_items\n"
        f"inner join (select distinct {names[0]} from labelled) as queries\n"
        f"    on queries.{names[0]} = shown_items.{query}\n"
        f"cross join (select max({names[2]}) as highest from labelled) as best\n"
        f"left join labelled\n    on labelled.{names[0]} = shown_items.{query}\n"
        f"        and labelled.{names[1]} = shown_items.{item}\n"
        f"where labelled.{names[0]} is null"
    )
    name = engine.free_name("sqlmetrics_all_labelled")
    with engine.temporary(f"{dialect.keep} {name} as\n{keep}", f"{dialect.drop} {name}"):
        yield spec.having(labels=_moved(source, name))


CUTOFFS = (1, 2, 3, 5, 10, 20, 50, 100)
FAMILIES = ("ndcg", "recall", "precision", "judged")
"""What is drawn over the cutoffs."""

RISING = ("precision", "hit", "mrr", "cg", "dcg")
"""Metrics that only rise with a grade: of ndcg and recall the ideal rises, too."""

COMPLETE = 0.99
"""Where so much has a label at each cutoff, there is nothing to see."""

TOOLS = ("trec_eval", "sklearn", "ranx", "torchmetrics", "spark_mllib", "recbole", "elasticsearch")
"""Presets that readers know, of which the first five are shown that fit."""

SHOWN_TOOLS = 5

_FIRST = "mrr"
_SHIFTS = (("1", 0.75), ("2-3", 0.3), ("4-10", 0.095), ("11+", 1e-12))
"""Ranks of the first relevant item, and the least reciprocal rank of each."""

NONE = "none"


@dataclass(frozen=True)
class _Lists:
    """Where the lists are, and whether their rows come in an order, which a spec does not say."""

    engine: Database
    is_ordered: bool

    def opened(self, spec: Spec) -> Tables:
        tables = opened(spec, self.engine)
        is_ordered = tables.rankings.ordered or self.is_ordered
        return replace(tables, rankings=replace(tables.rankings, ordered=is_ordered))

    def totals(self, spec: Spec) -> dict[tuple[str, str, int], tuple[float, float, int]]:
        return _totals(run(spec, self.opened(spec), self.engine, check=False, per_query=False))


def profile(plan: Plan, content: Content, sample: Sample, engine: Database) -> Profile:
    """What the lists look like; a part that the conventions do not allow is left out.

    Args:
        plan: What is asked; a sample has no order of its rows, and no part of it is looked at
            where equal scores come in that order.
        content: What is known of it already.
        sample: Which queries are looked at.
        engine: Where the tables are.
    """
    if sample.ids and not engine.translation.dialect.keep:
        return Profile()
    spec = plan.spec
    in_order = spec.options["ties"] == "input_order" and not spec.rankings.columns.rank
    if sample.ids and in_order:
        return Profile()
    plain = spec.having(checks=(), output=None, baseline=None)
    lists = _Lists(engine, plan.shape.at.rankings.ordered and not sample.ids)
    with keep_sample(plain, sample, engine) as part:
        profile = Profile(n_queries=sample.n_queries, is_sample=bool(sample.ids))
        profile = _curves(part, content, lists, profile)
        profile = replace(profile, bounds=list(_bounds(part, content, lists, profile)))
        if not _adds_up(part, content):
            return profile
        tools = list(_tools(part, content, lists))
        return replace(profile, **_ties(part, content, lists), tools=tools)


def _curves(part: Spec, content: Content, lists: _Lists, profile: Profile) -> Profile:
    """With metrics at each cutoff, and where the relevant items stand."""
    texts = [f"{name}@{k}" for name in FAMILIES for k in CUTOFFS]
    fitting = [text for text in (*texts, _FIRST, "num_rel") if _fits(part, text)]
    spec = part.having(metrics=tuple(fitting), by=(), online=())
    engine = lists.engine
    plan = make_plan(spec, lists.opened(spec))
    with (
        executing(plan, engine, check=False, per_query=False, execution=USUALLY) as script,
        engine.reading(),
    ):
        result = result_of(plan, script, engine, check=False)
        first: Sequence[Row] = ()
        if content.baseline and content.main != content.baseline and _FIRST in fitting:
            first = _first(content, Statements(script, engine), plan)
    curves = list(_means(result))
    return replace(profile, curves=curves, relevant=list(_relevant(curves, result)), first=first)


def _fits(spec: Spec, text: str) -> bool:
    try:
        spec.having(metrics=(text,), by=())
    except SqlmetricsError:
        return False
    return True


def _adds_up(part: Spec, content: Content) -> bool:
    """Whether one number of all days is made of those of each day: not of medians, say."""
    measure = part.measure(content.first)
    is_sum = part.settings(measure).is_mean or measure.metric.count
    return bool(is_sum or len(content.dates()) < 2)


def _totals(result: Result) -> dict[tuple[str, str, int], tuple[float, float, int]]:
    """System, metric and cutoff -> the sums of all days."""
    sums: dict[tuple[str, str, int], tuple[float, float, int]] = {}
    for row in result.to_dicts():
        if row["segment_name"] != ALL or row["value"] is None:
            continue
        key = str(row["system"]), str(row["metric"]), int(row["k"])
        top, bottom, n = sums.get(key, (0.0, 0.0, 0))
        mean = row["denominator"] is not None
        amounts = (row["numerator"], row["denominator"]) if mean else (row["value"], 0.0)
        sums[key] = (top + amounts[0], bottom + amounts[1], n + row["n_queries"])
    return sums


def _means(result: Result) -> Iterator[Row]:
    """System, family, cutoff and value."""
    for (system, metric, k), (top, bottom, n) in _totals(result).items():
        family = metric.partition("(")[0]
        if k and bottom and family in FAMILIES:
            yield {"system": system, "family": family, "k": k, "value": top / bottom, "n": n}


def _relevant(curves: Sequence[Row], result: Result) -> Iterator[Row]:
    """How many relevant items a query has between cutoffs; the last ones are in no list so deep."""
    all_of = {key[0]: sums for key, sums in _totals(result).items() if key[1] == "num_rel"}
    for system, (total, _, _) in all_of.items():
        count_by_cutoff = {
            r["k"]: r["value"] * r["k"] for r in curves if _is(r, system, "precision")
        }
        n = next((r["n"] for r in curves if _is(r, system, "precision")), 0)
        ends = [k for k in (1, 3, 10, 20, 50, 100) if k in count_by_cutoff]
        if not (ends and n and total):
            continue
        before, last = 0.0, 0
        for k in ends:
            name = str(k) if k == last + 1 else f"{last + 1}-{k}"
            yield {"system": system, "rank": name, "items": max(0.0, count_by_cutoff[k] - before)}
            before, last = count_by_cutoff[k], k
        yield {"system": system, "rank": NONE, "items": max(0.0, total / n - before), "last": last}


def _is(row: Row, system: str, family: str) -> bool:
    return bool(row["system"] == system and row["family"] == family)


def _first(content: Content, statements: Statements, plan: Any) -> list[Row]:
    """How many queries have their first relevant item where, for both systems."""
    measures = [measure for measure in comparable(plan)[0] if str(measure) == _FIRST]
    options = Options(
        metrics=(), days=None, systems=(content.main,), baseline=content.baseline, by=()
    )
    pairing, _ = design(plan, measures, options, lambda text: statements.rows([], text))
    pairing = replace(pairing, cluster=None)
    name = measures[0].column
    columns = [
        Column(_rank_of(f"{name}_baseline"), "before"),
        Column(_rank_of(name), "after"),
    ]
    where = f"{name}_difference is not null"
    about = "where the first relevant item of a query stands"
    ranks = columns_stage("first_ranks", about, columns, "pairs", where)
    keys = ["before", "after"]
    sums = sums_stage("shifts", "how many", keys, [Column("count(*)", "n")], "first_ranks")
    return statements.rows(
        [*pairing.stages(), ranks, sums], "select *\nfrom shifts\norder by before, after"
    )


def _rank_of(column: str) -> str:
    whens = "\n".join(f"    when {column} >= {least!r} then '{name}'" for name, least in _SHIFTS)
    return f"case\n{whens}\n    else '{NONE}'\nend"


def _bounds(part: Spec, content: Content, lists: _Lists, profile: Profile) -> Iterator[Row]:
    """A metric at each cutoff, if what has no label were bad, and if it were good."""
    if all(row["value"] >= COMPLETE for row in profile.curves if row["family"] == "judged"):
        return
    name, _ = without_cutoff(content.first)
    family = name if name in RISING else "precision"
    texts = tuple(f"{family}@{k}" for k in CUTOFFS if _fits(part, f"{family}@{k}"))
    unjudged = dict(part.conventions) | {"unjudged": "nonrelevant"}
    spec = part.having(metrics=texts, by=(), online=(), conventions=unjudged)
    with all_labelled(spec, lists.engine) as good:
        if good is None:
            return
        totals = [lists.totals(judged) for judged in (spec, good)]
    for key, (top, bottom, _) in totals[0].items():
        best = totals[1].get(key)
        if bottom and best and best[1]:
            worst = {"family": family, "system": key[0], "k": key[2], "worst": top / bottom}
            yield worst | {"best": best[0] / best[1]}


def _ties(part: Spec, content: Content, lists: _Lists) -> dict[str, Any]:
    """What equal scores do to the first metric; nothing where there are none."""
    if part.rankings.columns.rank:
        return {}
    spec = part.having(metrics=(part.measure(content.first).text,), by=(), online=())
    try:
        rows = tied_rows(make_plan(_ordered(spec, "id_asc"), lists.opened(spec)), lists.engine)
        tied = {
            str(row["system"]): row["n_tied_rows"] / row["n_rows"]
            for row in rows.to_pylist()
            if row["n_rows"]
        }
        if not any(tied.values()):
            return {}
        values = {
            name: _values(_ordered(spec, rule) if rule else spec, lists)
            for name, rule in {"value": "", "worst": "worst", "best": "best"}.items()
        }
    except SqlmetricsError:
        return {}
    systems = values["value"]
    ties = [
        {
            "system": system,
            **{name: value_by_system.get(system) for name, value_by_system in values.items()},
        }
        for system in systems
    ]
    return {"ties": ties, "tied": tied}


def _ordered(spec: Spec, rule: str) -> Spec:
    """With a rule for equal scores."""
    return spec.having(conventions=dict(spec.conventions) | {"ties": rule})


def _values(spec: Spec, lists: _Lists) -> dict[str, float]:
    """System -> its mean of all days."""
    totals = lists.totals(spec)
    return {key[0]: top / bottom for key, (top, bottom, _) in totals.items() if bottom}


def _tools(part: Spec, content: Content, lists: _Lists) -> Iterator[Row]:
    """What other tools would print of the first metric, the report's own number first."""
    n_tools = 0
    base_spec = part.having(metrics=(part.measure(content.first).text,), by=(), online=())
    for preset in (None, *TOOLS):
        if n_tools > SHOWN_TOOLS:
            return
        try:
            spec = base_spec if preset is None else base_spec.having(preset=preset, conventions={})
            totals = lists.totals(spec)
        except SqlmetricsError:
            continue
        n_tools += 1
        for (system, metric, k), (top, bottom, n) in totals.items():
            yield {
                "preset": preset or "",
                "system": system,
                "metric": at_cutoff(metric, k),
                "value": top / bottom if bottom else top,
                "n_queries": n,
            }

"""What the tables of a spec hold: their columns, what identifies a list, what sorts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import AGE, is_column_role, label_column, query_column
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.segments import Segments
from sqlmetrics.plan.tables import NO_BUCKET, Bucket, Tables, of_days
from sqlmetrics.spec.source import ItemColumns, Queries, QueryColumns
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, unmentioned
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import double, identifier, literal
from sqlmetrics.sql.translation import Translation

_ABOUT = {
    "rankings": "one row per ranked item",
    "labels": "one row per labelled item",
    "queries": "one row per query: its columns",
    "items": "one row per item: its columns",
}

_ROW_OF = {"rankings": "ranking", "labels": "label", "queries": "query", "items": "item"}
"""Table -> what one of its rows is."""

_ITEM_FACTS = {
    "category": "cast({column} as varchar)",
    "popularity": "cast({column} as double)",
    "users": "cast({column} as double)",
    "vector": "cast({column} as double[])",
}

YES, NO = ["true", "t", "yes", "y", "1", "1.0"], ["false", "f", "no", "n", "0", "0.0"]
"""The texts of a column that says yes or no, in small letters, capitals, or the first one large."""


def _is_any_of(words: list[str]) -> str:
    texts = dict.fromkeys(w for word in words for w in (word, word.capitalize(), word.upper()))
    return f"cast({{column}} as varchar) in ({', '.join(map(literal, texts))})"


IS_YES, IS_NO = _is_any_of(YES), _is_any_of(NO)

_NAMED_COLUMNS = {
    "number": "cast({column} as double)",
    "text": "cast({column} as varchar)",
    "age": "cast({column} as date)",
    "flag": f"case\n    when {IS_YES}\n        then 1e0\n    when {IS_NO}\n        then 0e0\nend",
}
"""As what a column that metrics name is read -> its SQL."""

APPEARANCES = "appearances"
"""The stage of all days and systems of the rankings."""

GROUPS = "labels.group"
"""What metrics need that look at groups of labels."""

STAGE = "stage"
"""The key of what a list has come through, where lists come through several stages."""


def _read_as(role: str, column: str) -> str:
    """A column that a metric names, as what it is read."""
    return _NAMED_COLUMNS[role.partition("_")[0]].format(column=column)


def segment(name: str) -> str:
    """The column of a segment in the stages; no user's name can clash with ours."""
    return identifier(f"by_{name}")


def grade_case(text: str, grades: Mapping[str, float], *, braces: bool = False) -> str:
    """The number that a grade's text stands for, NULL for a text without one.

    Args:
        text: The expression of the text.
        grades: Text -> number.
        braces: Whether the whole is a format, in which the texts' own braces are doubled.

    >>> grade_case("grade", {"good": 2, "bad": 0})
    "case grade when 'good' then 2e0 when 'bad' then 0e0 end"
    """
    whens = " ".join(
        f"when {literal(label_text)} then {double(n)}" for label_text, n in grades.items()
    )
    if braces:
        whens = whens.replace("{", "{{").replace("}", "}}")
    return f"case {text} {whens} end"


@dataclass(frozen=True)
class Shape:
    """The shape of the input.

    Attributes:
        spec: What was asked.
        at: Where the tables are.
        bucket: Which queries are looked at.
    """

    spec: Spec
    at: Tables
    bucket: Bucket = NO_BUCKET

    @property
    def translation(self) -> Translation:
        """How the database of the tables reads SQL."""
        return self.at.translation

    @cached_property
    def tables(self) -> dict[str, Relation]:
        """The tables by name."""
        return {name: self.at.protected(relation) for name, relation in self._sources.items()}

    @cached_property
    def _sources(self) -> dict[str, Relation]:
        items = self.at.items if self.spec.needs_items else None
        optional_tables = {"queries": self.at.queries, "items": items}
        given_tables = {
            name: relation for name, relation in optional_tables.items() if relation is not None
        }
        return {"rankings": self.at.rankings, "labels": self.at.labels} | given_tables

    @cached_property
    def where(self) -> dict[str, str]:
        """Table -> the condition that its rows must meet, empty without one."""
        return {table: " and ".join(self._conditions(table)) for table in self.tables}

    def _conditions(self, table: str) -> list[str]:
        """What the rows of a table meet that are looked at: of some days, of a bucket."""
        is_column = self.joined and table == "labels"
        label = f"{identifier(self.columns['labels']['grade'])} is not null"
        requirements = [*[label] * is_column, *self.days_of(table)]
        candidates = [self.source_condition(table), self.bucket.conditions.get(table, "")]
        conditions = [condition for condition in candidates if condition]
        wrapped = (
            conditions
            if len(requirements + conditions) == 1
            else [f"({condition})" for condition in conditions]
        )
        return [
            *wrapped[: bool(candidates[0])],
            *requirements,
            *wrapped[bool(candidates[0]) :],
            *self._of_stages(table),
        ]

    def _of_stages(self, table: str) -> list[str]:
        """What the rows of a table meet that are of the stages that are looked at."""
        funnel = self.at.funnel
        if funnel is None or not funnel.names or table != "rankings":
            return []
        stage_names = ", ".join(map(literal, funnel.names))
        return [f"cast({identifier(funnel.column)} as varchar) in ({stage_names})"]

    def source_condition(self, table: str) -> str:
        """What was said of the rows of a table, of all days and queries; empty if nothing."""
        return self.translation.condition(self.written_condition(table))

    def written_condition(self, table: str) -> str:
        """The same as the spec has it, in no dialect."""
        source = self.spec.truth if table == "labels" else getattr(self.spec, table)
        return self.at.condition(table, source) if source else ""

    def day(self, table: str) -> str:
        """The day of a row: of a time with a zone, by the zone that holds for the table."""
        column = identifier(self.columns[table]["date"])
        zone = self.at.zones.get(table)
        if zone is None:
            return f"cast({column} as date)"
        if self.tables[table].loses_types:
            column = f"cast({column} as timestamptz)"
        times = self.translation.dialect.times
        return self.translation.expression(times.in_zone(zone), column)

    def days_of(self, table: str) -> list[str]:
        """What the rows of a table meet that are of the days that are looked at."""
        if self.at.ends is None or "date" not in self.columns.get(table, {}):
            return []
        column = identifier(self.columns[table]["date"])
        return of_days(self.at, table, column, self.day(table))

    @cached_property
    def columns(self) -> dict[str, dict[str, str]]:
        """Table -> role -> the source's column, for the roles that the table has."""
        columns = {
            "rankings": self._ranking_columns,
            "labels": self._label_columns,
            "queries": self._query_columns,
            "items": self._item_columns,
        }
        return {table: columns[table]() for table in self.tables}

    @cached_property
    def segments(self) -> dict[str, tuple[str, ...]]:
        """Table -> the segments, and the column of `cluster`, that its rows tell."""
        return {table: self.made_of.of(table) for table in ("rankings", "queries")}

    @cached_property
    def made_of(self) -> Segments:
        """What the segments are made of."""
        are_values = self.at.unfused is not None
        return Segments(self.spec, self.at.trace_queries, are_values)

    @property
    def queries(self) -> Queries | None:
        """The table of queries: the spec's, else what traces say of theirs."""
        return self.spec.queries or self.at.trace_queries

    @cached_property
    def weighted(self) -> str:
        """The table that has the weights, empty without weights."""
        tables = (table for table, roles in self.columns.items() if "weight" in roles)
        return next(tables, "")

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """What a ranked list is identified by."""
        has = self.columns["rankings"]
        date = ("metric_date",) if "date" in has else ()
        roles = tuple(role for role in ("system", STAGE) if role in has)
        return (*date, *roles, "query_id")

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """What a summary is made for: every day and system."""
        return tuple(key for key in self.keys if key != "query_id")

    @cached_property
    def lives(self) -> tuple[str, ...]:
        """Day and system, as far as there are such columns: who answers queries when."""
        return tuple(key for key in self.groups if key != STAGE)

    @cached_property
    def query_keys(self) -> tuple[str, ...]:
        """What a query is identified by, whichever system answers it, at whatever stage."""
        return tuple(key for key in self.keys if key not in ("system", STAGE))

    @property
    def of_one_system(self) -> bool:
        """Whether a query is answered by one system alone: a request of a click log."""
        return self.spec.clicks is not None

    @property
    def holds_once(self) -> bool:
        """Whether no list and no query can have an item twice: a click log is cleaned of those."""
        return self.spec.clicks is not None

    @property
    def spans_pauses(self) -> bool:
        """Whether a system counts on days without a row of it, between its first and last day."""
        return "metric_date" in self.keys and self.spec.options["absent_systems"] == "missing"

    @property
    def looks_for_systems(self) -> bool:
        """Whether the systems of a day are looked for beyond the lists that are evaluated.

        They are named to a bucket of queries, or it looks for them among the rows of all.
        """
        is_untold = bool(self.bucket.conditions) and not self.bucket.systems
        return self.spans_pauses or (is_untold and bool(self.lives) and not self.of_one_system)

    @cached_property
    def label_keys(self) -> tuple[str, ...]:
        """What a query's labels are identified by."""
        return (("metric_date",) if "date" in self.columns["labels"] else ()) + ("query_id",)

    @cached_property
    def facts(self) -> tuple[str, ...]:
        """Columns that belong to a query as a whole: its segments and its weight."""
        return tuple(map(segment, self.spec.query_columns)) + (("weight",) if self.weighted else ())

    @cached_property
    def listed_facts(self) -> tuple[str, ...]:
        """The facts that stand in the rankings."""
        weight = ("weight",) if self.weighted == "rankings" else ()
        return tuple(map(segment, self.segments["rankings"])) + weight

    @cached_property
    def facts_of_queries(self) -> tuple[str, ...]:
        """The facts that stand in the queries table."""
        weight = ("weight",) if self.weighted == "queries" else ()
        return tuple(map(segment, self.segments["queries"])) + weight

    @cached_property
    def derived_facts(self) -> dict[str, str]:
        """The facts that stand in no table -> their segments."""
        table_facts = {name for names in self.segments.values() for name in names}
        return {segment(n): n for n in self.spec.query_columns if n not in table_facts}

    @cached_property
    def keys_of_queries(self) -> tuple[str, ...]:
        """What a row of the queries table is identified by."""
        return (("metric_date",) if "date" in self.columns.get("queries", {}) else ()) + (
            "query_id",
        )

    @cached_property
    def order(self) -> tuple[str, ...]:
        """What sorts a list: its score or rank, then the rule for ties."""
        ties = OPTIONS["ties"].choice(self.spec.options["ties"]).sql.split(", ")
        return ("given_rank asc" if "rank" in self.columns["rankings"] else "score desc", *ties)

    @cached_property
    def sorters(self) -> tuple[str, ...]:
        """The columns of `order`."""
        return tuple(column.split()[0] for column in self.order)

    @property
    def counts_repeats(self) -> bool:
        """Whether a list may hold an item several times, in rows that all count as such."""
        return self.spec.options["duplicate_rankings"] in ("first", "count")

    @property
    def numbers_repeats(self) -> bool:
        """Whether rows are told by which time their item comes up: the first alone is labelled."""
        return self.spec.options["duplicate_rankings"] == "first"

    @cached_property
    def names(self) -> dict[str, str]:
        """What the stages of the tables are called: names that no source mentions.

        A CTE hides a table of its own name, so that `labels: {relation: rankings}` would
        read our stage instead of the user's table.
        """
        unfused = self.at.unfused
        rankings = {"rankings": unfused.rankings} if unfused else {}
        sources = {**self._sources, **rankings}.values()
        return {
            table: unmentioned(table, sources, instead=f"{_ROW_OF[table]}_rows")
            for table in self.tables
        }

    def stages(self) -> tuple[Stage, ...]:
        """The tables, as the other stages and the input checks read them."""
        select = {
            "rankings": self._select_rankings,
            "labels": self._select_labels,
            "queries": self._select_queries,
            "items": self._select_items,
        }
        return tuple(self._stage(table, select[table]()) for table in self.tables)

    def appearances(self) -> Stage:
        """The days on which systems have rows, whatever queries are looked at.

        Of all days there are, where a system counts between its first and last day.
        """
        has = self.columns["rankings"]
        conditions = [condition] if (condition := self.source_condition("rankings")) else []
        rankings, everyone = self.tables["rankings"], replace(self, bucket=NO_BUCKET)
        days = "all days of the data" if self.spans_pauses else "all queries"
        view = {
            "about": f"one row per ranked item on {days}: its day and system",
            "distinct": False,
            "columns": list(self._select_groups(has)),
            "relation": rankings.of_all_files if self.spans_pauses else rankings,
            "where": conditions if self.spans_pauses else everyone._conditions("rankings"),
        }
        return Stage(APPEARANCES, "table", view)

    def shown_ranks(self, rank_columns: list[Column]) -> Stage:
        """The ranks that a click log tells, as far as they are of the days that are looked at.

        Args:
            rank_columns: What it tells beside the list.
        """
        lists = self.at.shown_lists
        columns = [*self._select_groups(self.columns["rankings"]), Column("query_id", "query_id")]
        view = {
            "about": "the ranks of labelled items in the regular lists of the click log",
            "distinct": False,
            "columns": [*columns, *self._select_facts("rankings"), *rank_columns],
            "relation": Relation("table", lists.ranks if lists else ""),
            "where": self._conditions("rankings"),
        }
        return Stage("shown_ranks", "table", view)

    def problems(self) -> Iterator[str]:
        """What the spec asks for that its tables cannot give."""
        has = self.columns
        ordered = self.at.rankings.ordered or "rank" in has["rankings"]
        if self.spec.options["ties"] == "input_order" and not ordered:
            yield (
                "ties=input_order needs rows in an order: a rank column, a file or a "
                "DataFrame; a table or query of a database has none"
            )
        yield from self._unfit_border()
        yield from self._problems_of_a_log()
        yield from self._unreadable()
        yield from self._zoneless()
        yield from self._too_deep()
        for table in ("labels", "queries"):
            if "date" in has.get(table, {}) and "date" not in has["rankings"]:
                yield f"the {table} have a date column, the rankings have none"
        dated = [need for need in self.spec.needed if need.startswith((f"items.{AGE}_", "day."))]
        if dated and "date" not in has["rankings"]:
            yield (
                f"{self.spec.needed[dated[0]]} needs the day of each query; name the "
                "rankings' column of days as the date"
            )
        if "weight" in has["rankings"] and "weight" in has.get("queries", {}):
            yield "the rankings and the queries both have a weight; name one"
        compares = "baseline" in self.spec.needed
        if self.spec.baseline is not None and "system" not in has["rankings"] and not compares:
            yield "a baseline is a system; name the rankings' column of systems"
        yield from self.made_of.problems(weighted=bool(self.weighted))
        yield from self._unmet_needs()

    def _unfit_border(self) -> Iterator[str]:
        """That `min_score` has no scores to be compared with, or scores of several scales."""
        if self.spec.options["min_score"] == "none":
            return
        if "rank" in self.columns["rankings"]:
            yield (
                "min_score is compared with scores, and the rankings have ranks: name their "
                "column of scores, cut the lists with depth, or leave min_score out"
            )
        elif self.spec.rankings.fuse:
            yield (
                "min_score is compared with the scores of all systems, and fuse gives its systems "
                "scores of another scale: cut these with limit, all lists with depth, or leave "
                "min_score out"
            )

    def _problems_of_a_log(self) -> Iterator[str]:
        """What a click log cannot give."""
        if not self.of_one_system:
            return
        if self.spec.options["absent_systems"] == "missing":
            yield (
                "absent_systems=missing: a request of a click log belongs to the system that "
                "served it, no other one misses it; leave the option out"
            )
        for role in self.label_roles:
            measure = self.spec.needed[f"labels.{role}"]
            yield f"{measure} needs a column of the labels; labels of a click log have none"

    def _unreadable(self) -> Iterator[str]:
        """Sources that DuckDB alone can read."""
        if not self.translation.changes:
            return
        dialect = self.translation.dialect.title
        for table, relation in self._sources.items():
            if not relation.is_sql:
                yield (
                    f"{table}: {dialect} cannot read files; load the file into a table and name it "
                    "as the relation"
                )
            elif relation.lists:
                yield f"{table}: rows that hold lists are read by DuckDB alone; unfold them in sql"

    def _too_deep(self) -> Iterator[str]:
        """Ideal lists that the database cannot plan."""
        dialect = self.translation.dialect
        for measure in self.spec.components:
            if measure.metric.orders_groups and (measure.k or 0) > dialect.places:
                yield (
                    f"{measure}: {dialect.title} cannot plan so long an ideal list, each place "
                    f"of which is a stage; ask for a cutoff of at most {dialect.places}"
                )

    def _zoneless(self) -> Iterator[str]:
        """Zones of which the database cannot tell the days."""
        dialect = self.translation.dialect
        for table, zone in self.at.zones.items():
            if not dialect.times.knows(zone):
                yield (
                    f"{table}.time_zone: {dialect.title} cannot tell the days of {zone}; "
                    "give a column of days"
                )

    def _unmet_needs(self) -> Iterator[str]:
        """Metrics that need what is not there."""
        if self.spec.needs_items and "items" not in self.tables:
            need, measure = next(n for n in self.spec.needed.items() if n[0].startswith("items"))
            role, hint = need.partition(".")[2], ""
            if is_column_role(role):
                column = role.partition("_")[2]
                hint = f" with its {column}; where the rankings have it, select it from them"
            yield f"{measure} needs the items table, one row per item{hint}; give items"
            return
        yield from filter(None, (self._unmet(*pair) for pair in self.spec.needed.items()))

    def _unmet(self, need: str, measure: Measure) -> str:
        """What a metric needs that is not there, and how to give it; empty if it is there."""
        table, _, role = need.partition(".")
        if need == "baseline" and "system" not in self.columns["rankings"]:
            return f"{measure} compares systems; name the rankings' column of systems"
        if need == "baseline" and self.spec.baseline is None:
            return f"{measure} compares with a system; name it as the baseline"
        if need == GROUPS and "group" not in self.columns[table]:
            return (
                f"{measure} needs the groups of labels: name their column (group, subtopic, "
                "nugget or the like) as the group" + self._why_ungrouped
            )
        if table == "queries" and table not in self.tables:
            column = role.partition("_")[2]
            return (
                f"{measure} needs the queries table, one row per query with its {column}; "
                "give queries"
            )
        if role and table != "day" and role not in self.columns[table]:
            return (
                f"{measure} needs the {role} of items: a column {role} of the items table, "
                f"or, in a spec, {table}: {{columns: {{{role}: ...}}}}"
            )
        return ""

    @property
    def _why_ungrouped(self) -> str:
        """What of the spec has labels that cannot have groups."""
        if self.of_one_system:
            return "; labels of a click log have none"
        return "; it stands in a table of labels of its own" if self.joined else ""

    def checked(self) -> Shape:
        """The shape itself, if nothing is wrong with it.

        Raises:
            SpecError: Else.
        """
        problems = list(self.problems())
        if problems:
            raise SpecError(problems)
        return self

    def _ranking_columns(self) -> dict[str, str]:
        columns = self.spec.rankings.columns
        file_columns = dict(self.at.rankings.columns)
        order = "rank" if columns.rank or "rank" in file_columns else "score"
        column_by_role = {"query": columns.query, "item": columns.item, order: columns.order}
        for role in ("system", "date", "weight"):
            if getattr(columns, role):
                column_by_role[role] = getattr(columns, role)
        if self.at.trace_queries and self.at.trace_queries.columns.weight:
            del column_by_role["weight"]
        if self.at.funnel:
            column_by_role[STAGE] = self.at.funnel.column
        fixed = {
            role: name
            for role, name in file_columns.items()
            if role != "score" or role in column_by_role
        }
        return column_by_role | fixed

    def _label_columns(self) -> dict[str, str]:
        columns = self.spec.truth.columns
        column_by_role = {"query": columns.query, "item": columns.item, "grade": columns.grade}
        for role in ("group", "date"):
            if getattr(columns, role):
                column_by_role[role] = getattr(columns, role)
        fixed = {} if self.joined else dict(self.at.labels.columns)
        if not (columns.group or GROUPS in self.spec.needed):
            fixed.pop("group", None)  # TREC's second field, which says nothing elsewhere
        named = {role: columns.named(role) or "" for role in self.label_roles}
        return column_by_role | fixed | named

    @cached_property
    def label_roles(self) -> tuple[str, ...]:
        """The columns of the labels that metrics name themselves, by their roles."""
        return tuple(role for role in self._needed_roles("labels") if is_column_role(role))

    def _query_columns(self) -> dict[str, str]:
        columns = self.queries.columns if self.queries else QueryColumns()
        column_by_role = {"query": columns.query}
        for role in ("date", "weight"):
            if getattr(columns, role):
                column_by_role[role] = getattr(columns, role)
        named = {role: columns.named(role) or "" for role in self._needed_roles("queries")}
        return column_by_role | ({"text": self.made_of.text} if self.made_of.text else {}) | named

    def _item_columns(self) -> dict[str, str]:
        """The columns that metrics need."""
        columns = self.spec.items.columns if self.spec.items else ItemColumns()
        column_by_role = {role: columns.named(role) for role in self._needed_roles("items")}
        return {"item": columns.item} | {
            role: name for role, name in column_by_role.items() if name
        }

    def _needed_roles(self, table: str) -> list[str]:
        needs = (need.partition(".") for need in self.spec.needed)
        return [role for name, _, role in needs if name == table and role]

    @property
    def has_groups(self) -> bool:
        """Whether a label is of an item and a group, of which an item may have several."""
        return "group" in self.columns["labels"]

    @cached_property
    def labelled_keys(self) -> tuple[str, ...]:
        """What a row of the labels is identified by."""
        return (*self.label_keys, "item_id", *["group_id"] * self.has_groups)

    @property
    def joined(self) -> bool:
        """Whether the labels stand in the rankings."""
        return self.spec.labels is None

    def _stage(self, table: str, columns: Iterator[Column]) -> Stage:
        view = {
            "about": _ABOUT[table],
            "distinct": table == "labels" and self.joined,
            "columns": list(columns),
            "relation": self.tables[table],
            "where": self._conditions(table),
        }
        return Stage(self.names[table], "table", view)

    def _select_rankings(self) -> Iterator[Column]:
        has = {role: identifier(name) for role, name in self.columns["rankings"].items()}
        yield from self._select_groups(self.columns["rankings"])
        yield Column(f"cast({has['query']} as varchar)", "query_id")
        yield Column(f"cast({has['item']} as varchar)", "item_id")
        yield self._sorting(has)
        if "input_order" in self.sorters:
            yield Column("row_number() over ()" if self.at.rankings.ordered else "1", "input_order")
        yield from self._select_facts("rankings")

    def _select_groups(self, has: Mapping[str, str]) -> Iterator[Column]:
        """The day and the system of a row of the rankings."""
        if "date" in has:
            yield Column(self.day("rankings"), "metric_date")
        if "system" in has:
            yield Column(f"cast({identifier(has['system'])} as varchar)", "system")
        if STAGE in has:
            yield Column(f"cast({identifier(has[STAGE])} as varchar)", STAGE)

    def _select_facts(self, table: str) -> Iterator[Column]:
        for name in self.segments[table]:
            yield Column(self.made_of.value(name, self.translation), segment(name))
        if self.weighted == table:
            yield Column(f"cast({identifier(self.columns[table]['weight'])} as double)", "weight")

    def _sorting(self, has: dict[str, str]) -> Column:
        if "rank" in has:
            return Column(f"cast({has['rank']} as bigint)", "given_rank")
        precision = OPTIONS["score_precision"].choice(self.spec.options["score_precision"])
        return Column(precision.sql.format(score=has["score"]), "score")

    def _select_labels(self) -> Iterator[Column]:
        has = {role: identifier(name) for role, name in self.columns["labels"].items()}
        if "date" in has:
            yield Column(self.day("labels"), "metric_date")
        yield Column(f"cast({has['query']} as varchar)", "query_id")
        yield Column(f"cast({has['item']} as varchar)", "item_id")
        if self.has_groups:
            yield Column(f"cast({has['group']} as varchar)", "group_id")
        yield Column(self._grade(has["grade"]), "grade")
        for role in self.label_roles:
            yield Column(_read_as(role, has[role]), identifier(label_column(role)))

    def _grade(self, column: str) -> str:
        """A grade as a number: texts by their map, negative ones by their policy."""
        grade = f"cast({column} as double)"
        if self.spec.truth.grades:
            grade = grade_case(f"cast({column} as varchar)", self.spec.truth.grades)
        return self._policy("negative_grades").format(grade=grade)

    def _policy(self, option: str) -> str:
        return OPTIONS[option].choice(self.spec.options[option]).sql

    def _select_queries(self) -> Iterator[Column]:
        has = {role: identifier(name) for role, name in self.columns["queries"].items()}
        if "date" in has:
            yield Column(self.day("queries"), "metric_date")
        yield Column(f"cast({has['query']} as varchar)", "query_id")
        yield from self._select_facts("queries")
        for role in self._needed_roles("queries"):
            yield Column(_read_as(role, has[role]), identifier(query_column(role)))

    def _select_items(self) -> Iterator[Column]:
        has = {role: identifier(name) for role, name in self.columns["items"].items()}
        yield Column(f"cast({has['item']} as varchar)", "item_id")
        for role, sql in _ITEM_FACTS.items():
            if role in has:
                yield Column(sql.format(column=has[role]), role)
        for role in filter(is_column_role, has):
            yield Column(_read_as(role, has[role]), identifier(role))

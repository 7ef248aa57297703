"""`combine`: one label of several judges'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from sqlmetrics.agreement import CALIBRATED, DAWID_SKENE, METHODS
from sqlmetrics.agreement.agreement import AGREEMENT_SCHEMAS, system_tables
from sqlmetrics.agreement.calibration import EVERY, Calibration, Fit, calibrated, fitted
from sqlmetrics.agreement.counts import COMBINED, LABELS, SHOWN_BY, SYSTEM, PairCounts
from sqlmetrics.agreement.question import Question, names
from sqlmetrics.catalog.option import plain
from sqlmetrics.comparison.statements import columns_stage, join_stage, sums_stage
from sqlmetrics.comparison.written_table import WrittenTable
from sqlmetrics.errors import InputError, SpecError, shortened, unknown
from sqlmetrics.evaluation.arguments import check_count, check_level
from sqlmetrics.evaluation.question import TableArguments, check_arguments
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.table import Table, many, metric_value, printable
from sqlmetrics.tables.tabular import ArrowTables, Block, Kinds, Row, Tabular, arrow_tables

if TYPE_CHECKING:
    from sqlmetrics.plan.plan import Plan


# The result of `combine`: the labels, and what they change.

SCHEMAS: dict[str, Kinds] = {
    "changes": {
        **dict.fromkeys(("method", "judge"), "string"),
        **dict.fromkeys(("n_labels", "n_changed"), "int64"),
        "share_changed": "double",
        "n_added": "int64",
        **dict.fromkeys(("mean_grade", "combined_mean", "accuracy"), "double"),
    },
    "chances": {"judge": "string", **dict.fromkeys(("true_grade", "grade", "chance"), "double")},
    "calibration": {
        **dict.fromkeys(("judge", "systems"), "string"),
        "grade": "double",
        "n_pairs": "int64",
        **dict.fromkeys(("mean_grade", "calibrated"), "double"),
    },
    **{name: AGREEMENT_SCHEMAS[name] for name in ("systems", "orders")},
}
"""Table -> its columns, but for the labels."""


@dataclass(frozen=True, repr=False)
class Combination(Tabular):
    """One label of several judges'; it prints as tables of what changes.

    Attributes:
        table: The labels; no row of those that were written to a table.
        methods: How labels became one.
        judges: The judges in their order.
        changes: One row per method and judge: labels, those that the one label differs from
            (`n_changed`) and their share, pairs that have a label now (`n_added`), and the mean
            of the judge's grades beside that of the one label of the same pairs; of dawid_skene
            also how often the judge is expected to give the true grade (`accuracy`).
        chances: Of dawid_skene, one row per judge, true grade and grade: the chance that the
            judge gives it.
        calibration: Of calibrated, one row per judge but the first and grade, and per group of
            systems that show a pair (`systems`; `all` where that makes no difference): pairs that
            the first judge graded too, the mean of its grades, and what the grade is worth.
        systems: With metrics, one row per metric and system by the labels of the first judge and
            of a method; see `Agreement`.
        orders: With metrics, one row per metric: how alike the systems are ordered.
        notes: What a reader should know.
        sql: The query of the labels, in the words of the database; or the statements that write
            them.
        into: The table that they were written to; empty if `table` has the rows.
        n_rows: How many rows were written.
    """

    table: pa.Table
    methods: tuple[str, ...]
    judges: tuple[str, ...]
    changes: tuple[Row, ...]
    chances: tuple[Row, ...]
    notes: tuple[str, ...]
    sql: str
    calibration: tuple[Row, ...] = ()
    systems: tuple[Row, ...] = ()
    orders: tuple[Row, ...] = ()
    into: str = ""
    n_rows: int = 0

    def __len__(self) -> int:
        return self.n_rows or int(self.table.num_rows)

    def _arrow_tables(self) -> ArrowTables:
        rows = {name: getattr(self, name) for name in SCHEMAS}
        return {"labels": lambda: self.table, **arrow_tables(rows, SCHEMAS)}

    def _blocks(self) -> Iterator[Block]:
        means = ["mean_grade", "combined_mean"]
        means += ["accuracy"] if self.chances else []
        rows = [
            [
                *(row["method"], printable(row["judge"])),
                *(f"{row[name]:,}" for name in ("n_labels", "n_changed", "n_added")),
                *(metric_value(row[name]) for name in means),
            ]
            for row in self.changes
        ]
        names = ["method", "judge", "graded pairs", "changed", "added", "mean grade", "new mean"]
        yield Table([*names, *means[2:]], rows, 2)
        if self.calibration:
            has_groups = any(row["systems"] != EVERY for row in self.calibration)
            cells = [
                [
                    printable(row["judge"]),
                    *([printable(row["systems"])] if has_groups else []),
                    *(plain(row["grade"]), f"{row['n_pairs']:,}"),
                    *(metric_value(row[name]) for name in ("mean_grade", "calibrated")),
                ]
                for row in self.calibration
            ]
            title = f"what grades are worth, by those of {printable(self.judges[0])}"
            groups = ["shown by"] if has_groups else []
            names = ["judge", *groups, "grade", "graded pairs", "mean grade", "calibrated"]
            yield Table(names, cells, 1 + has_groups, title=title)
        for method in self.methods:
            of_method = [
                [row for row in table if row["other_judge"] == method]
                for table in (self.systems, self.orders)
            ]
            if of_method[0]:
                yield from system_tables(self.judges[0], method, *of_method)
        where = f"{printable(self.into)}: " if self.into else ""
        counted = f"{where}{many(len(self), 'label')}" if len(self) else "no label was written"
        yield "\n".join([counted, *(f"note: {note}" for note in self.notes)])


# The rules by which labels of judges become one, as stages of SQL, and what each changes.
#
# judge_labels ─> ... ─> combined_labels, one row per pair: its grade, and of how many judges

Keys = Sequence[str]


def _mean(keys: Keys) -> Iterator[Stage]:
    columns = [Column("avg(grade)", "grade"), Column("count(*)", "n_judges")]
    about = "one row per pair: the mean of its grades"
    yield sums_stage(COMBINED, about, keys, columns, LABELS)


def _median(keys: Keys) -> Iterator[Stage]:
    columns = [
        *(*keys, "grade"),
        Column(f"count(*) over {Window(keys)}", "n"),
        Column(f"row_number() over {Window(keys, ['grade asc', 'judge asc'])}", "grade_rank"),
    ]
    yield columns_stage("ordered_labels", "the labels of a pair by their grade", columns, LABELS)
    is_middle = "2 * grade_rank between n and n + 2"
    columns = [Column("avg(grade)", "grade"), Column("max(n)", "n_judges")]
    about = "one row per pair: its middle grade, of an even number the mean of the middle two"
    view = {"about": about, "keys": keys, "columns": columns, "from": "ordered_labels"}
    yield Stage(COMBINED, "sums", {**view, "joins": {}, "where": is_middle})


def _first(keys: Keys) -> Iterator[Stage]:
    columns = [
        *(*keys, "grade"),
        Column(f"count(*) over {Window(keys)}", "n_judges"),
        Column(f"row_number() over {Window(keys, ['judge asc'])}", "judge_number"),
    ]
    yield columns_stage("ordered_labels", "the labels of a pair by their judge", columns, LABELS)
    about = "one row per pair: the grade of its first judge"
    columns = [*keys, "grade", "n_judges"]
    yield columns_stage(COMBINED, about, columns, "ordered_labels", "judge_number = 1")


def _majority(keys: Keys) -> Iterator[Stage]:
    votes = [Column("count(*)", "n_votes")]
    about = "one row per pair and grade: how many judges gave it"
    yield sums_stage("grade_votes", about, [*keys, "grade"], votes, LABELS)
    columns = [
        *(*keys, "grade", "n_votes"),
        Column(f"sum(n_votes) over {Window(keys)}", "n_judges"),
        Column(f"row_number() over {Window(keys, ['n_votes desc', 'grade asc'])}", "vote_rank"),
    ]
    yield columns_stage("ordered_grades", "the grades of a pair by votes", columns, "grade_votes")
    about = "one row per pair: the grade of most judges; of as many votes the lower grade"
    columns = [*keys, "grade", "n_judges", Column("1e0 * n_votes / n_judges", "share")]
    yield columns_stage(COMBINED, about, columns, "ordered_grades", "vote_rank = 1")


SIMPLE: Mapping[str, Callable[[Keys], Iterator[Stage]]] = {
    "majority": _majority,
    "mean": _mean,
    "median": _median,
    "first": _first,
}
"""Method -> its stages, from the columns that a pair is known by."""

MOST_GRADES = 30
"""As many grades does Dawid and Skene's model know."""

TWO = "dawid_skene cannot tell which of two judges is right; add a third"


@dataclass(frozen=True)
class LabelRule:
    """A method on the labels of some judges.

    Attributes:
        method: One of METHODS.
        counts: The labels.
        fit: What Dawid and Skene's model learned of the judges; None of other methods.
        calibration: What the grades of judges are worth; None of other methods.
    """

    method: str
    counts: PairCounts
    fit: Fit | None = None
    calibration: Calibration | None = None

    @classmethod
    def learned(
        cls, method: str, counts: PairCounts, max_rounds: int, plan: Plan | None = None
    ) -> LabelRule:
        """The method, with all that it has to know of the judges.

        Args:
            method: One of METHODS.
            counts: The labels.
            max_rounds: After so many rounds dawid_skene ends at the latest.
            plan: The plan of lists, where calibrated labels depend on who shows the pair.

        Raises:
            InputError: If there are too many grades for a model of them.
        """
        if method == CALIBRATED:
            counts = replace(counts, plan=plan)
            calibration = calibrated(counts, by_system=plan is not None)
            return cls(method, counts, calibration=calibration)
        if method != DAWID_SKENE:
            return cls(method, counts)
        select = f"select distinct grade\nfrom {LABELS}\norder by grade asc"
        rows = counts.engine.rows(with_stages(counts.label_stages, select))
        grades = [float(grade) for (grade,) in rows]
        if len(grades) > MOST_GRADES:
            raise InputError(
                f"labels: {len(grades):,} different grades; dawid_skene takes {MOST_GRADES} at "
                "most: round them in a query, or take the mean or the median"
            )
        return cls(method, counts, fitted(counts, grades, max_rounds))

    @property
    def keys(self) -> tuple[str, ...]:
        """What a pair is identified by."""
        return self.counts.panel.pair_keys

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the labels."""
        columns_by_method = {"majority": ["share"], DAWID_SKENE: ["probability"]}
        return (*self.keys, "grade", "n_judges", *columns_by_method.get(self.method, ()))

    def _stages(self) -> list[Stage]:
        model = self.fit or self.calibration
        method_stages = model.stages(self.keys) if model else SIMPLE[self.method](self.keys)
        return [*self.counts.label_stages, *method_stages]

    def select(self) -> str:
        """The query of the labels, ordered by the pair."""
        columns = ",\n    ".join(self.columns)
        order = ", ".join(f"{key} asc" for key in self.keys)
        last = f"select\n    {columns}\nfrom {COMBINED}\norder by {order}"
        return with_stages(self._stages(), last)

    def table(self) -> pa.Table:
        """The labels."""
        return self.counts.engine.table(self.select())

    def no_rows(self) -> pa.Table:
        """A table without them."""
        import pyarrow as pa

        return pa.table({name: pa.array([], pa.null()) for name in self.columns})

    def first_grades(self) -> pa.Table:
        """One row per pair that the first judge graded: `grade_1`."""
        columns = ", ".join([*self.keys, "grade as grade_1"])
        select = f"select {columns}\nfrom {LABELS}\nwhere judge = 1"
        return self.counts.engine.table(with_stages(self.counts.label_stages, select))

    def changes(self) -> Iterator[Row]:
        """One row per judge: which of its labels the one label is not, and both means."""
        columns = [
            *(f"{LABELS}.{name}" for name in ("judge", "grade", "n_labels")),
            Column(f"{COMBINED}.grade", "combined_grade"),
        ]
        about = "the labels of each judge beside the one label"
        sums = [
            Column("count(*)", "n_labels"),
            Column("sum(case when grade <> combined_grade then 1 else 0 end)", "n_changed"),
            Column("avg(grade)", "mean_grade"),
            Column("avg(combined_grade)", "combined_mean"),
            Column("sum(case when n_labels > 1 then 1 else 0 end)", "n_repeated"),
        ]
        stages = [
            *self._stages(),
            join_stage("beside", about, columns, LABELS, to=COMBINED, on=self.keys),
            sums_stage("judge_changes", "one row per judge", ["judge"], sums, "beside"),
            columns_stage("n_all", "all pairs", [Column("count(*)", "n_pairs")], COMBINED),
        ]
        select = "select *\nfrom judge_changes\ncross join n_all\norder by judge asc"
        for row in self.counts.engine.records(with_stages(stages, select)):
            judge, n_labels, n_changed = (
                int(row[name]) for name in ("judge", "n_labels", "n_changed")
            )
            yield {
                "method": self.method,
                "judge": self.counts.panel.names[judge - 1],
                "n_labels": n_labels,
                "n_changed": n_changed,
                "share_changed": n_changed / n_labels,
                "n_added": int(row["n_pairs"]) - n_labels,
                "mean_grade": float(row["mean_grade"]),
                "combined_mean": float(row["combined_mean"]),
                "accuracy": self.fit.accuracy(judge) if self.fit else None,
            }

    def chances(self) -> Iterator[Row]:
        """Of Dawid and Skene's model, one row per judge, true grade and grade."""
        for (judge, grade), chances in sorted(self.fit.chances.items()) if self.fit else ():
            for true_grade, chance in zip(self.fit.grades, chances, strict=True):  # type: ignore[union-attr]
                name = self.counts.panel.names[judge - 1]
                yield {"judge": name, "true_grade": true_grade, "grade": grade, "chance": chance}

    def worths(self) -> Iterator[Row]:
        """Of calibrated, one row per judge and grade: what the grade is worth."""
        for row in self.calibration.rows if self.calibration else ():
            systems = self.calibration.group(row[SHOWN_BY])  # type: ignore[union-attr]
            yield {**row, "judge": self.counts.panel.names[row["judge"] - 1], "systems": systems}

    def notes(self) -> Iterator[str]:
        """What a reader should know."""
        if self.calibration and self.calibration.n_sparse:
            groups = many(self.calibration.n_sparse, "group")
            yield (
                f"calibrated: {groups} of systems without a pair that people graded; their grades "
                "are worth what they are in all pairs"
            )
        if self.fit and len(self.counts.panel.names) == 2:
            yield TWO
        if self.fit and not self.fit.is_settled:
            n_rounds = len(self.fit.log_likelihoods) - 1
            yield (
                f"dawid_skene did not settle in {many(n_rounds, 'round')}; raise max_rounds "
                "(--max-rounds)"
            )


def combine(
    labels: Any,
    judges: str | Sequence[str] = (),
    *,
    method: str | Sequence[str] = "majority",
    judge: str | None = None,
    rankings: Any = None,
    metrics: str | Sequence[str] = (),
    per: str | None = None,
    k: int | None = None,
    level: float = CONFIDENCE,
    max_rounds: int = 500,
    into: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Combination:
    """Make one label of several judges', in the database, and say what that changes.

    A pair of query and item has a label if a judge graded it; a NULL grade is a label that is
    missing. Of several labels that a judge gave one pair the highest counts.

    Args:
        labels: The labels, as `agree` takes them.
        judges: The columns of grades, or the judges, in their order. Default: all judges, in the
            order of their names or tables.
        method: How labels become one: `majority`, the grade of most judges, of as many votes the
            lowest; `mean`; `median`, of an even number the mean of the middle two; `first`, the
            grade of the first judge that has one; or `dawid_skene`, the likeliest grade if each
            judge errs in ways of its own, which the labels of all tell; or `calibrated`, the grade
            of the first judge, who is people, and of pairs that it did not grade the mean of what
            the grades of the others let expect of it, which never falls. Or several of them, for
            what each would change; the labels then have a column `method`.
        judge: The column that names the judge of a row; see `agree`.
        rankings: Rankings as `evaluate` takes them, to see what changes for their systems.
        metrics: Metrics of the systems by the labels of the first judge and by the one label, of
            the pairs that the first judge graded: see `agree`.
        per: `system`: calibrated takes what a grade is worth apart for each group of systems that
            show the pair in their top `k`, so that a judge which favours a system does so no more.
            Needs rankings with a column of systems.
        k: The last rank of the rankings that `per` looks at. Default: 10.
        level: The coverage of the intervals of these.
        max_rounds: After so many rounds dawid_skene ends at the latest.
        into: A table of the database that the labels are written to, and stay in.
        overwrite: Whether the rows of `into` are replaced if it has the columns of these labels;
            by default it must not be there.
        dry_run: Whether `into` is left alone: `sql` is what would be executed.
        connection: The database that holds the tables; see `evaluate`.
        check: Whether to look for bad input first.
        **arguments: The other arguments of `evaluate`; without rankings those of labels alone.

    Returns:
        The labels: rows (query_id, item_id, grade, n_judges), with metric_date where all judges'
        labels have days, of `majority` with the share of the judges that gave the grade, of
        `dawid_skene` with its probability; ordered by the pair. `evaluate` takes them as they are.
        Beside them, what changes.

    Raises:
        SpecError: If there are not 2 to 20 judges, or an argument is wrong.
        InputError: If the data would give wrong numbers.
        EngineError: If the database fails.

    >>> labels = pa.table({
    ...     "query_id": [1, 1, 1],
    ...     "item_id": ["a", "b", "c"],
    ...     "ann": [2, 0, 1],
    ...     "bob": [2, 1, None],
    ...     "gpt": [3, 1, 0],
    ... })
    >>> combine(labels, ["ann", "bob", "gpt"]).to_arrow()["grade"].to_pylist()
    [2.0, 1.0, 0.0]
    """
    labels, rankings = read_if_spec(labels), read_if_spec(rankings)
    check_arguments(combine, arguments)
    check_level("the confidence level", level)
    check_count("max_rounds", max_rounds)
    methods = _methods(method)
    depth = 10 if k is None else k
    check_count("k", depth)
    _check_per(per, k, methods, rankings)
    if rankings is not None and not metrics and per is None:
        raise SpecError(
            "rankings are for metrics of their systems, or for labels per system; give metrics "
            "(-m) or per='system' (--per system)"
        )
    if into is not None and connection is None:
        raise SpecError("into needs the database of the table; give it (connection, --db)")
    if into is not None and len(methods) > 1:
        raise SpecError(f"into takes the labels of one method, given {', '.join(methods)}")
    question = Question("combine", labels, judges, judge, rankings, metrics, arguments)
    with question.opened(connection, check=check) as (panel, plan, engine):
        counts = PairCounts(panel, (), None, depth, engine)
        lists = plan if per else None
        if lists and SYSTEM not in lists.shape.keys:
            raise SpecError(
                "per='system' needs the systems of the rankings; name their column (system, "
                "--system), or give a table for each"
            )
        rules = [LabelRule.learned(name, counts, max_rounds, lists) for name in methods]
        facts: dict[str, Any] = {"methods": methods, "judges": panel.names}
        facts["changes"] = tuple(row for rule in rules for row in rule.changes())
        facts["chances"] = tuple(row for rule in rules for row in rule.chances())
        facts["calibration"] = tuple(row for rule in rules for row in rule.worths())
        facts["notes"] = (*panel.notes, *(note for rule in rules for note in rule.notes()))
        systems, orders = question.ordered_systems(
            lambda: _beside(rules), (panel.names[0], *methods), plan, engine, level
        )
        facts |= {"systems": systems, "orders": orders}
        if into is None:
            sql = "\n".join(
                f"{engine.translation.text(rule.select()).rstrip()};\n" for rule in rules
            )
            return Combination(_together(rules), sql=sql, **facts)
        output = WrittenTable(engine, into, rules[0].columns, rules[0].select(), overwrite, "grade")
        output.check()
        sql = output.text()
        n_rows = 0 if dry_run else output.write()
        return Combination(rules[0].no_rows(), sql=sql, into=into, n_rows=n_rows, **facts)


def _methods(method: Any) -> tuple[str, ...]:
    """The methods, each once; SpecError if one is none."""
    methods = tuple(dict.fromkeys(names("method", method)))
    for name in methods:
        if name not in METHODS:
            raise SpecError(unknown("method", shortened(name), METHODS))
    if not methods:
        raise SpecError(f"method must be one of {', '.join(METHODS)}, given none")
    return methods


def _check_per(per: Any, k: Any, methods: Sequence[str], rankings: Any) -> None:
    """Raise SpecError if labels cannot depend on systems, or a depth is for nothing."""
    if per is None:
        if k is not None:
            raise SpecError("k is the depth that per='system' looks at; add it (--per system)")
        return
    if per != SYSTEM:
        raise SpecError(unknown("per", shortened(str(per)), (SYSTEM,)))
    if CALIBRATED not in methods:
        raise SpecError(
            f"per='system' is of the method {CALIBRATED}, given {', '.join(methods)}; add "
            f"method={CALIBRATED!r} (--method {CALIBRATED})"
        )
    if rankings is None:
        raise SpecError(
            "per='system' looks at the lists of systems; give them (rankings, --rankings)"
        )


def _together(rules: Sequence[LabelRule]) -> pa.Table:
    """The labels of all methods; of several with a column that names the method."""
    tables = [rule.table() for rule in rules]
    if len(rules) > 1:
        tables = [
            table.add_column(0, "method", pa.array([rule.method] * table.num_rows, pa.string()))
            for rule, table in zip(rules, tables, strict=True)
        ]
    return pa.concat_tables(tables, promote_options="default")


def _beside(rules: Sequence[LabelRule]) -> pa.Table:
    """One row per pair that the first judge graded: its grade, and those of the methods."""
    keys = rules[0].keys
    pairs = rules[0].first_grades()
    for number, rule in enumerate(rules, start=2):
        labels = rule.table().select([*keys, "grade"])
        labels = labels.rename_columns([*keys, f"grade_{number}"])
        pairs = pairs.join(labels, [*keys], join_type="left outer")
    return pairs

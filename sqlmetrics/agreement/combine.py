"""`combine`: one label of several judges'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import pyarrow as pa

from sqlmetrics.agreement import CALIBRATED, METHODS
from sqlmetrics.agreement.combination import Combination
from sqlmetrics.agreement.counts import SYSTEM, PairCounts
from sqlmetrics.agreement.label_rule import LabelRule
from sqlmetrics.agreement.question import Question, names
from sqlmetrics.comparison.written_table import WrittenTable
from sqlmetrics.errors import SpecError, shortened, unknown
from sqlmetrics.evaluation.arguments import check_count, check_level
from sqlmetrics.evaluation.question import TableArguments, check_arguments
from sqlmetrics.stats import CONFIDENCE


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

"""What `agree` and `combine` are asked: whose labels, and which lists they matter for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlmetrics.agreement.judges import Panel, open_panel
from sqlmetrics.agreement.system_orders import SystemOrders, check_metrics
from sqlmetrics.comparison.compare import asked_plan
from sqlmetrics.comparison.options import Options
from sqlmetrics.engines.database import Database, connect, session_of
from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.evaluation.arguments import listed
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.question import Inputs
from sqlmetrics.jobs.days import days_between
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.tabular import Row

_OF_RANKINGS = ("score", "rank", "system", "where", "skip_bad")
_OF_LABELS = ("grade", "grades", "label_columns")
OF_METRICS = ("preset", "metrics_from")
NO_USE = (
    *("group", "items", "mask", "queries", "segments", "weight"),
    "duplicate_labels",
)
"""Arguments of `evaluate` that say nothing about judges."""


@dataclass(frozen=True)
class Question:
    """Labels of several judges, and rankings that they are of.

    Attributes:
        asker: The function that asks, as messages name it.
        labels: The labels, as the function is given them.
        judges: The judges in their order.
        judge: The column that names the judge of a row.
        rankings: The rankings; None where they are not looked at.
        metrics: The metrics of their systems.
        arguments: The other arguments of `evaluate`.
    """

    asker: str
    labels: Any
    judges: Any
    judge: Any
    rankings: Any
    metrics: str | Sequence[str]
    arguments: Mapping[str, Any]

    @contextmanager
    def opened(
        self, connection: Any, *, check: bool | float
    ) -> Iterator[tuple[Panel, Plan | None, Database]]:
        """The judges, the plan of the lists, and the database.

        Raises:
            SpecError: If an argument is wrong, or it is not clear who judged.
            InputError: If the data would give wrong numbers.
        """
        names_given = names("judges", self.judges)
        names("judge", self.judge)
        rankings, arguments = self.rankings, self.arguments
        no_use = NO_USE if self.metrics else (*NO_USE, *OF_METRICS)
        if unused := [name for name in no_use if arguments.get(name)]:
            raise SpecError(f"{self.asker} has no use for {', '.join(unused)}; leave it out")
        if rankings is None and (needless := [n for n in _OF_RANKINGS if arguments.get(n)]):
            raise SpecError(f"{', '.join(needless)}: only with rankings, which are not given")
        check_metrics(self.metrics, rankings, isinstance(rankings, Spec))
        self._check_spec()
        with ExitStack() as stack:
            engine = stack.enter_context(connect(session_of(connection, self.labels, rankings)))
            stack.enter_context(engine.reading())
            panel = open_panel(self.labels, names_given, self.judge, arguments, engine, check=check)
            plan = None
            if rankings is None:
                self._check_day(panel)
            else:
                plan = stack.enter_context(self._shown(engine, check=check))
            yield panel, plan, engine

    def _check_spec(self) -> None:
        """Raise SpecError for what the spec of the labels says itself."""
        if isinstance(self.labels, Spec):
            has_table = not (self.rankings is None or isinstance(self.rankings, Spec))
            extras = {
                name: value
                for name, value in self.arguments.items()
                if value is not None and (not has_table or name in (*_OF_LABELS, "negative_grades"))
            }
            Inputs(self.labels, None, extras).check_spec_alone()

    def _check_day(self, panel: Panel) -> None:
        """Raise InputError if no table of labels has the column of days."""
        columns = self.arguments.get("label_columns") or {}
        if day := columns.get("date") or self.arguments.get("date"):
            panel.check_column(day)

    @property
    def _of_rankings(self) -> dict[str, Any]:
        """The arguments that say something of rankings."""
        return {name: value for name, value in self.arguments.items() if name not in _OF_LABELS}

    @contextmanager
    def _shown(self, engine: Database, *, check: bool | float) -> Iterator[Plan]:
        """The plan of an evaluation of the rankings, for the ranks of their items alone."""
        labels, ranking_options = None, {}
        if not isinstance(self.rankings, Spec):
            import pyarrow as pa

            kinds = {"query_id": pa.string(), "item_id": pa.string(), "grade": pa.float64()}
            labels = pa.schema([*kinds.items()]).empty_table()
            ranking_options = self._of_rankings
            ranking_options["label_columns"] = {"query": "query_id", "item": "item_id"}
        inputs = Inputs(self.rankings, labels, ranking_options)
        options = Options(metrics=("ndcg@10",), days=days_between(None, None, None))
        with asked_plan(inputs.resolved(engine), options, engine) as (plan, _):
            if check:
                checks.check(plan, engine, ignored_tables=("labels", "both tables"))
            yield plan.unfused

    def ordered_systems(
        self, labels: Any, judges: Sequence[str], plan: Plan | None, engine: Database, level: float
    ) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """The systems and their orders by the labels of judges; nothing without metrics.

        Args:
            labels: Makes one row per pair: its keys, and the grade of each judge, grade_1 and on.
            judges: Their names; the first is the one that others are held against.
            plan: The plan of the lists.
            engine: The database.
            level: The coverage of the intervals.
        """
        texts = check_metrics(self.metrics, self.rankings, isinstance(self.rankings, Spec))
        if not texts or plan is None:
            return (), ()
        if "system" not in plan.shape.keys:
            raise SpecError(
                "metrics order systems, given one: give a table for each, or name the column of "
                "systems (system, --system)"
            )
        has_tables = isinstance(self.rankings, Mapping | list | tuple)
        systems, orders = SystemOrders(
            labels=labels(),
            judges=tuple(judges),
            rankings=self.rankings,
            metrics=texts,
            arguments=self._of_rankings,
            system=None if has_tables else plan.spec.rankings.columns.system,
            engine=engine,
            level=level,
        ).rows()
        return tuple(systems), tuple(orders)


def names(argument: str, value: Any) -> tuple[str, ...]:
    """The names that an argument gives; SpecError if one is no text."""
    given_names = listed(value)
    if not all(isinstance(name, str) for name in given_names):
        raise SpecError(f"{argument} takes names, which are texts, given {shortened(repr(value))}")
    return given_names

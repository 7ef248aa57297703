"""Table macros for DuckDB: `from ndcg('rankings', 'labels', 10)`, from any client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.catalog.metric import Metric, listed
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Stage, print_template, with_stages

RANKINGS, LABELS, CUTOFF = "rankings_table", "labels_table", "cutoff"
"""What the macros call their arguments: no column of ours has these names."""

ANY = 987_654
"""The cutoff for which the text is made; the argument takes its place."""

ALL = 2_147_483_647
"""The cutoff of a whole list."""

OF_A_KNOWN_CUTOFF = ("insq", "inst", "sdcg")
"""Metrics that divide by a sum over all ranks to the cutoff, which is worked out for the text."""

VALUES = ("value", "numerator", "denominator", "n_queries", "n_skipped", "n_missing")


@dataclass(frozen=True)
class Macro:
    """A macro of a metric.

    Attributes:
        metric: The metric.
        of_queries: Whether it gives one row per query instead of the mean.
    """

    metric: Metric
    of_queries: bool = False

    @property
    def name(self) -> str:
        """What it is called in SQL."""
        name = f"{self.metric.name}_of_queries" if self.of_queries else self.metric.name
        return f'"{name}"' if name == "precision" else name

    @property
    def usage(self) -> str:
        """How it is called."""
        last = {"required": ", 10", "optional": ", 10", "none": ""}[self.metric.cutoff]
        return f"from {self.name}('rankings', 'labels'{last})"

    def statement(self) -> str:
        """The statement that makes it."""
        cutoff = {"required": [CUTOFF], "optional": [f"{CUTOFF} := {ALL}"], "none": []}
        view = {
            "title": self.metric.title,
            "usage": self.usage,
            "name": self.name,
            "parameters": [RANKINGS, LABELS, *cutoff[self.metric.cutoff]],
            "body": self._body(),
        }
        return print_template("jobs/macro", view)

    def _body(self) -> str:
        spec = _spec(self.metric)
        macro_plan = make_plan(spec, tables_of(spec))
        view = {
            "rankings": RANKINGS,
            "labels": LABELS,
            "cutoff": "" if self.metric.cutoff == "none" else CUTOFF,
        }
        column = spec.measures[0].column
        values = ["query_id", f"{column} as value"] if self.of_queries else list(VALUES)
        guarded_view = {"columns": values, "from": "per_query" if self.of_queries else "summary"}
        stages = (
            macro_plan.inputs
            + macro_plan.per_query
            + (() if self.of_queries else macro_plan.summary)
        )
        mistakes = Stage("mistakes", "jobs/mistakes", view)
        return _with_arguments(
            with_stages([*stages, mistakes], print_template("jobs/guarded", guarded_view))
        )


def _spec(metric: Metric) -> Spec:
    cutoff = "" if metric.cutoff == "none" else f"@{ANY}"
    return Spec(
        name="macro",
        rankings={"relation": RANKINGS},
        labels={"relation": LABELS},
        metrics=[f"{metric.name}{cutoff}"],
    )


def _with_arguments(text: str) -> str:
    """The macro's arguments in the places of the tables and the cutoff."""
    for name in (RANKINGS, LABELS):
        text = text.replace(f"from {name}\n", f"from query_table({name})\n")
    text = text.replace(f"_at_{ANY}", "")
    return re.sub(rf"(?<![\w.]){ANY}(?:\.0)?(e0)?(?!\w)", CUTOFF, text)


def macros() -> Iterator[Macro]:
    """All of them: of each metric that needs no more than rankings and labels."""
    for metric in listed():
        if metric.needs or metric.name in OF_A_KNOWN_CUTOFF or _spec(metric).needed:
            continue
        yield Macro(metric)
        if not metric.pooled:
            yield Macro(metric, of_queries=True)


def install(engine: Database) -> list[Macro]:
    """Make the macros in a database; those of the same names are replaced.

    Raises:
        EngineError: If it cannot be written.
    """
    installed = list(macros())
    with engine, engine.transaction():
        for macro in installed:
            engine.execute(macro.statement())
    return installed


def text() -> str:
    """All of them as one script."""
    return "\n\n".join(f"{macro.statement()};" for macro in macros()) + "\n"

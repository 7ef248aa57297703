"""What only shows once queries and labels are put together."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script

_WEIGHED = {
    "rankings": "choose missing=drop, or rank them in some system",
    "queries": "add them to the queries table",
}


def check_kept(plan: Plan, script: Script, engine: Database) -> None:
    """Raise InputError for what only shows once queries and labels are put together.

    Args:
        plan: The plan of the evaluation.
        script: How `per_query` is read.
        engine: Where it is.

    Raises:
        InputError: If a query is missing though missing=error, or has no weight.
    """
    keys = ", ".join(plan.shape.keys)
    for condition, problem, remedy in _refused(plan):
        rows = f"from per_query where {condition}"
        count = engine.rows(script.over(f"select count(*) {rows}"))[0][0]
        if count:
            first = f"select {keys} {rows} order by {keys} limit {EXAMPLES}"
            examples = engine.rows(script.over(first))
            message = f"labelled queries {problem}: {count:,}"
            raise InputError(Problem("labels", message, count, plan.shape.keys, examples, remedy))


def _refused(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """What no query may meet, what it is then, and what to do."""
    missing = plan.spec.options["missing"]
    if missing == "error":
        yield "is_ranked = 0", "without a ranking", "choose missing=zero or missing=drop"
    if plan.shape.weighted:
        ranked = " and is_ranked = 1" if missing == "drop" else ""
        remedy = _WEIGHED[plan.shape.weighted]
        yield f"weight is null{ranked}", "without a weight", remedy

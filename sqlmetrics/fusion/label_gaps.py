"""What items without a label do to variants: their bounds, and whether a lead hangs on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlmetrics.catalog.metric import without_cutoff
from sqlmetrics.comparison.page.profile import RISING
from sqlmetrics.comparison.page.sample import all_labelled
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.run import run
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text
from sqlmetrics.tables.tabular import Row


def hanging_lead(plan: Plan, engine: Database, best: int, rival: int) -> str:
    """What a rival would have if the items that it alone shows were good; empty if no more.

    Items that both show are the same to both. Those that the rival alone shows have the highest
    grade, and all others without a label are bad: that is the least lead of the winner.

    Args:
        plan: The plan of the evaluation, whose systems are the numbers of variants in a table.
        engine: Where its tables are.
        best: The number of the winner, from 1.
        rival: Of the variant that it is compared with.
    """
    spec, k, metric = plan.spec, plan.measures[0].k or 10, _bounded_metric(plan)
    table = source_text(plan.shape.tables["rankings"])
    same = " and ".join(f"best.{key} = rival.{key}" for key in (*plan.shape.query_keys, "item_id"))
    alone = (
        f"select rival.*\nfrom {table} as rival\nleft join (\n    select *\n    from {table}\n"
        f"    where system = {best} and rnk <= {k}\n) as best\n    on {same}\n"
        f"where rival.system = {rival} and rival.rnk <= {k} and best.item_id is null"
    )
    rows = spec.rankings.model_copy(update={"relation": None, "sql": alone})
    both = spec.rankings.model_copy(update={"where": f"system in ({best}, {rival})"})
    asked = _asked(plan, metric, "nonrelevant")
    with all_labelled(asked.having(rankings=rows), engine) as good:
        if good is None:
            return ""
        plain, judged = (
            _means(labelled.having(rankings=both), engine) for labelled in (asked, good)
        )
    is_held = judged[rival] <= plain[rival] or judged[rival] < judged[best]
    return "" if is_held else f"{metric} would be {judged[rival]:.4f}, not {judged[best]:.4f}"


@dataclass(frozen=True)
class Bounds:
    """A variant without its items that have no label, and with them as bad and as good.

    Attributes:
        metric: What `low` and `high` are of: of a metric whose ideal rises with labels, precision.
        condensed: Variant and day -> its mean of labelled items alone, of the metric that decides.
        low: Variant and day -> its mean if no item without a label were relevant.
        high: If each of them had the highest grade; none where labels are texts, or are of days.
    """

    metric: str
    condensed: Mapping[tuple[int, str], float]
    low: Mapping[tuple[int, str], float]
    high: Mapping[tuple[int, str], float]


def bounds(plan: Plan, engine: Database) -> Bounds:
    """The bounds of all variants, of each day.

    Args:
        plan: The plan of the evaluation, whose systems are the numbers of variants in a table of
            whole lists.
        engine: Where its tables are.

    Raises:
        SpecError: If the conventions of the metric do not go with it.
    """
    metric = _bounded_metric(plan)
    asked = _asked(plan, metric, "nonrelevant")
    condensed = _values(_asked(plan, plan.measures[0].text, "condensed"), engine)
    with all_labelled(asked, engine) as good:
        high = _values(good, engine) if good else {}
    return Bounds(metric, condensed, _values(asked, engine), high)


def _bounded_metric(plan: Plan) -> str:
    """The metric that decides if it only rises with a grade, else precision."""
    text = str(plan.measures[0])
    name, _ = without_cutoff(text)
    return text if name in RISING else f"precision@{plan.measures[0].k or 10}"


def _asked(plan: Plan, metric: str, unjudged: str) -> Spec:
    conventions = dict(plan.spec.conventions) | {"unjudged": unjudged}
    return plan.spec.having(metrics=(metric,), by=(), segments={}, conventions=conventions)


def _rows(spec: Spec, engine: Database) -> list[Row]:
    return run(spec, opened(spec, engine), engine, check=False, per_query=False).to_dicts()


def _values(spec: Spec, engine: Database) -> dict[tuple[int, str], float]:
    """The number of a variant and a day -> its mean of that day, where it has one."""
    return {
        (int(row["system"]), str(row["metric_date"])): row["value"]
        for row in _rows(spec, engine)
        if row["value"] is not None
    }


def _means(spec: Spec, engine: Database) -> dict[int, float]:
    """The number of a variant -> its mean of all days."""
    sums: dict[int, tuple[float, float]] = {}
    for row in _rows(spec, engine):
        top, bottom = sums.get(int(row["system"]), (0.0, 0.0))
        sums[int(row["system"])] = top + (row["numerator"] or 0), bottom + (row["denominator"] or 0)
    return {number: top / bottom if bottom else 0.0 for number, (top, bottom) in sums.items()}

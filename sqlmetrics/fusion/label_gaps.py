"""Whether the lead of a winner hangs on items without a label."""

from __future__ import annotations

from sqlmetrics.catalog.metric import without_cutoff
from sqlmetrics.comparison.page.profile import RISING
from sqlmetrics.comparison.page.sample import all_labelled
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.run import run
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text


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
    spec, k = plan.spec, plan.measures[0].k or 10
    name, _ = without_cutoff(str(plan.measures[0]))
    metric = str(plan.measures[0]) if name in RISING else f"precision@{k}"
    table = source_text(plan.shape.tables["rankings"])
    same = " and ".join(f"best.{key} = rival.{key}" for key in (*plan.shape.query_keys, "item_id"))
    alone = (
        f"select rival.*\nfrom {table} as rival\nleft join (\n    select *\n    from {table}\n"
        f"    where system = {best} and rnk <= {k}\n) as best\n    on {same}\n"
        f"where rival.system = {rival} and rival.rnk <= {k} and best.item_id is null"
    )
    rows = spec.rankings.model_copy(update={"relation": None, "sql": alone})
    both = spec.rankings.model_copy(update={"where": f"system in ({best}, {rival})"})
    conventions = dict(spec.conventions) | {"unjudged": "nonrelevant"}
    asked = spec.having(metrics=(metric,), by=(), segments={}, conventions=conventions)
    with all_labelled(asked.having(rankings=rows), engine) as good:
        if good is None:
            return ""
        plain, judged = (
            _means(labelled.having(rankings=both), engine) for labelled in (asked, good)
        )
    is_held = judged[rival] <= plain[rival] or judged[rival] < judged[best]
    return "" if is_held else f"{metric} would be {judged[rival]:.4f}, not {judged[best]:.4f}"


def _means(spec: Spec, engine: Database) -> dict[int, float]:
    """The number of a variant -> its mean of all days."""
    result = run(spec, opened(spec, engine), engine, check=False, per_query=False)
    sums: dict[int, tuple[float, float]] = {}
    for row in result.to_dicts():
        top, bottom = sums.get(int(row["system"]), (0.0, 0.0))
        sums[int(row["system"])] = top + (row["numerator"] or 0), bottom + (row["denominator"] or 0)
    return {number: top / bottom if bottom else 0.0 for number, (top, bottom) in sums.items()}

"""Plan -> text: one query to read, or the statements that an engine runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.plan.per_query import BUCKET, LISTS
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.strategy import PORTABLE
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialects import KEPT
from sqlmetrics.sql.stage import Column, Stage, with_stages
from sqlmetrics.sql.template import LINE, commented, finished, lines, literal
from sqlmetrics.sql.translation import Translation


@dataclass(frozen=True)
class Script:
    """The statements of one evaluation, in order.

    Attributes:
        table: What keeps `per_query`; empty where nothing can be kept.
        kept: The query of its rows.
        keep: The statement that makes it.
        other_buckets: Adds other buckets of queries to it.
        copies: Write each bucket to a file, from which it is then kept.
        lists: Counts the lists there are, where that is known from what was kept.
        per_query: Reads the per-query table from what was kept; empty where nobody asks.
        summary: Computes the summary from what was kept.
        drop: Removes what was kept.
        stages: The stages of `per_query`, for what else is read from it.
    """

    keep: str
    per_query: str
    summary: str
    drop: str
    stages: tuple[Stage, ...]
    table: str = ""
    kept: str = ""
    other_buckets: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    lists: str = ""

    def __str__(self) -> str:
        return self.text(str)

    def text(self, translated: Callable[[str], str]) -> str:
        """All of it as one text, each statement as a function has it."""
        texts = (translated(statement).rstrip() for statement in self.statements)
        return "\n\n".join(f"{text};" for text in texts) + "\n"

    @property
    def statements(self) -> tuple[str, ...]:
        """All of them, in the order in which they run."""
        keep_statements = (*self.copies, self.keep, *self.other_buckets)
        return tuple(filter(None, (*keep_statements, self.summary, self.per_query, self.drop)))

    def over(self, select: str) -> str:
        """Another select from `per_query`."""
        return with_stages(self.stages, select)


def query_text(plan: Plan, *, per_query: bool = False) -> str:
    """The whole evaluation as one query: its summary, or its per-query table."""
    stages = plan.inputs + plan.per_query
    if per_query:
        return about(plan) + with_stages(stages, per_query_text(plan)) + "\n"
    return about(plan) + with_stages(stages + plan.summary, "select *\nfrom summary") + "\n"


def translated(plan: Plan, translation: Translation, *, per_query: bool = False) -> str:
    """The query as a database takes it."""
    return trusted(translation.text(query_text(plan, per_query=per_query)), translation)


def trusted(text: str, translation: Translation) -> str:
    """A translated text, after a line that says how far it can be trusted."""
    if not translation.changes:
        return text
    return f"-- {translation.dialect.title}: {trust(translation.dialect)}\n{text}"


def make_script(
    parts: Sequence[Plan],
    table: str = KEPT,
    *,
    per_query: bool = True,
    files: Sequence[Path] = (),
) -> Script:
    """The evaluation as statements that go through the data once.

    For metrics of all lists together the summary goes through it a second time: to keep
    the ranked rows would take as much memory as they have.

    Args:
        parts: What to print: the plan for each bucket of queries.
        table: The name of what is kept; empty if nothing may be.
        per_query: Whether the per-query table is wanted.
        files: Where each part is written first, if it shall outlast a run that is stopped.
    """
    plan = parts[0]
    dialect = plan.translation.dialect
    stages = plan.inputs + plan.per_query
    if not (dialect.keep and table):
        rows = query_text(plan, per_query=True).rstrip() if per_query else ""
        return Script("", rows, query_text(plan).rstrip(), "", stages)
    kept_stage = Stage("per_query", "kept", {"table": table})
    again = plan.inputs + plan.again if plan.again else ()
    first, *other_selects = (_kept(part) for part in parts)
    if files:
        file_list = ", ".join(literal(str(file)) for file in files)
        copies = zip((first, *other_selects), files, strict=True)
        first, other_selects = f"select *\nfrom read_parquet([{file_list}])", []
    return Script(
        copies=tuple(_copied(body, file) for body, file in copies) if files else (),
        table=table,
        kept=about(plan) + first,
        keep=about(plan) + f"{dialect.keep} {table} as\n{first}",
        summary=with_stages((*again, kept_stage, *plan.summary), "select *\nfrom summary"),
        per_query=per_query_text(plan, table) if per_query else "",
        drop=f"{dialect.drop} {table}",
        stages=(kept_stage,),
        other_buckets=tuple(f"insert into {table}\n{select}" for select in other_selects),
        lists=_lists(plan, table),
    )


def _lists(plan: Plan, table: str) -> str:
    """How many lists there are, with and without labels; empty where that was not counted."""
    if plan.counted_lists:
        return f"select coalesce(max({LISTS}), 0) from {table}"
    list_counts = f"select distinct {BUCKET}, {LISTS} from {table}"
    counted = f"select coalesce(sum({LISTS}), 0) from ({list_counts}) as buckets"
    return counted if plan.strategy.suspects else ""


def _kept(plan: Plan) -> str:
    select = "select *"
    if plan.counted_lists:
        counted = Column(f"(select count(*) from {plan.counted_lists})", LISTS)
        select = f"select\n    {lines(['per_query.*', counted])}"
    return with_stages(plan.inputs + plan.per_query, f"{select}\nfrom per_query")


def _copied(body: str, file: Path) -> str:
    return finished(f"copy (\n{body}\n) to {literal(f'{file}.part')} (format parquet)")


def per_query_text(plan: Plan, table: str = "per_query") -> str:
    """The select of the per-query table, from a stage or table of its rows."""
    where = f"\nwhere {plan.where}" if plan.where else ""
    return finished(f"select\n    {lines(plan.output)}\nfrom {table}{where}")


def about(plan: Plan) -> str:
    """Comment lines that say what the query computes and by which conventions."""
    spec = plan.spec
    metrics = wrapped("metrics: ", [measure.text for measure in plan.measures])
    used = {name for measure in spec.components for name in measure.metric.settings}
    used |= {name for name, option in OPTIONS.items() if option.scope == "spec"}
    if "metric_date" not in plan.shape.keys:
        used -= {name for name, option in OPTIONS.items() if option.of_days}
    options = [f"{name}={value}" for name, value in spec.options.items() if name in used]
    strategy = "" if plan.strategy == PORTABLE else commented(f"plan: {plan.strategy}")
    return metrics + strategy + wrapped(f"conventions ({spec.preset}): ", options)


def wrapped(title: str, words: Sequence[str]) -> str:
    r"""Words behind commas, on comment lines of at most 88 columns.

    >>> wrapped("metrics: ", ["ndcg@10", "mrr"])
    '-- metrics: ndcg@10, mrr\n'
    """
    lines, line = [], f"-- {title}"
    for number, word in enumerate(words):
        piece = word + (", " if number < len(words) - 1 else "")
        if len(line + piece.rstrip()) > LINE:
            lines.append(line.rstrip())
            line = "--     "
        line += piece
    return "\n".join([*lines, line]).replace("\r", " ") + "\n"

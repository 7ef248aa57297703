"""What an online metric is, as text: its definition, its SQL, and an example."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlmetrics.catalog.conventions import resolve
from sqlmetrics.catalog.online import NEEDS, Online, online
from sqlmetrics.evaluation.report.table import aligned
from sqlmetrics.proof.explain.arithmetic import number
from sqlmetrics.proof.explain.lines import compared, hung, paragraph
from sqlmetrics.proof.explain.online_example import (
    COLUMNS,
    LOG,
    Evaluated,
    OnlineExample,
    online_spec,
    worked_online,
)
from sqlmetrics.proof.reference_online import Request
from sqlmetrics.spec.spec import Spec

Compiled = Callable[[Spec], str]
"""The statements of a spec's log."""


def explain_online(name: str, preset: str | None, compiled: Compiled, evaluated: Evaluated) -> str:
    """All about a metric of click logs, to read at 80 columns.

    Args:
        name: Its text, like `ctr@5`.
        preset: A preset; it changes nothing, which is said.
        compiled: What gives the SQL of a spec's log.
        evaluated: What evaluates the online metrics of a spec's log.

    Raises:
        SpecError: If there is no such metric, it takes no such cutoff, or the preset is unknown.
    """
    resolve(preset or "house", {})
    asked = online(name)
    facts = "\n".join(hung(*fact) for fact in _facts(asked, preset or "a preset"))
    sections = [f"{asked}: {asked.metric.label}, of a click log", facts, *_sql(asked, compiled)]
    return "\n\n".join([*sections, *_worked(asked, worked_online(asked, evaluated))])


def _facts(asked: Online, preset: str) -> Iterator[tuple[str, str]]:
    metric = asked.metric
    yield "what", metric.title
    yield "range", metric.range
    yield "better", metric.better
    yield "unit", metric.unit
    yield "empty", "undefined (NULL) if the denominator is 0"
    yield "cutoff", "optional" if metric.cut else "has none"
    yield "needs", NEEDS.get(metric.needs, "a click log")
    yield "sums", "over requests, value = numerator / denominator"
    at = f"_at_{asked.k}" if asked.k else ""
    yield "numerator", metric.numerator.format(at=at)
    yield "denominator", metric.denominator.format(at=at)
    yield (
        "presets",
        f"{preset} changes nothing: conventions are of lists and labels; the keys of a "
        "spec's clicks say what counts of a log",
    )


def _sql(asked: Online, compiled: Compiled) -> Iterator[str]:
    """The last statement; those before it clean the log, whatever the metric is."""
    spec = online_spec(asked, tables={name: {"relation": f"my_{name}"} for name in COLUMNS})
    yield "SQL, one row per system; sqlmetrics compile prints what cleans the log first"
    yield compiled(spec).rpartition(";\n\n")[2].rstrip("\n;")


def _worked(asked: Online, example: OnlineExample) -> Iterator[str]:
    yield "Example: a small click log, one row per request"
    names = ["request", "session", "shown", "clicked", "bought", "numerator", "denominator"]
    rows = [(*_told(one), *map(number, part)) for one, part in zip(LOG, example.parts, strict=True)]
    yield aligned(names, rows, numbers_from=5)
    yield "clicked d:3s/40s: item d, 3 seconds after it was shown; one stayed for 40"
    sums = [number(sum(column)) for column in zip(*example.parts, strict=True)]
    steps = zip(names[5:], zip(*example.parts, strict=True), sums, strict=True)
    lines = [
        hung(name, f"{' + '.join(map(number, own))} = {all_}", 18) for name, own, all_ in steps
    ]
    lines.append(hung(str(asked), f"{' / '.join(sums)} = {number(example.value)}", 18))
    yield "\n".join(lines)
    yield compared(example.value, example.sql_value, example.difference)
    yield "With other keys of clicks in the spec, by the SQL"
    (_, *own), *others = example.rows
    different = [row for row in others if [*row[1:]] != own]
    same = [row[0] for row in others if row not in different]
    names = ["clicks", "numerator", "denominator", "value"]
    yield aligned(names, [("as it is", *own), *different], numbers_from=1)
    if same:
        yield paragraph("The same with ", same)


def _told(one: Request) -> tuple[str, ...]:
    clicks = " ".join(f"{c.item}:{c.after:g}s/{c.stay:g}s" for c in one.clicks)
    return one.name, one.session, " ".join(one.shown), clicks, " ".join(one.bought)

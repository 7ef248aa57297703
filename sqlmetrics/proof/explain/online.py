"""What an online metric is, as text: its definition, its SQL, and an example."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlmetrics.catalog.conventions import resolve
from sqlmetrics.catalog.online import NEEDS, Online, online
from sqlmetrics.errors import SpecError
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
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.table import Table

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
    measure = online(name)
    if measure.action not in ("", CLICK, PURCHASE):
        raise SpecError(
            f"{measure}: the example log has the actions {CLICK} and {PURCHASE} alone; explain "
            f"{measure.metric.example}"
        )
    facts = "\n".join(hung(*fact) for fact in _facts(measure, preset or "a preset"))
    sections = [
        f"{measure}: {measure.metric.label}, of a click log",
        facts,
        *_sql(measure, compiled),
    ]
    return "\n\n".join([*sections, *_worked(measure, worked_online(measure, evaluated))])


def _facts(measure: Online, preset: str) -> Iterator[tuple[str, str]]:
    metric = measure.metric
    yield "what", metric.title
    yield "range", metric.range
    yield "better", metric.better
    yield "unit", metric.unit
    yield "empty", "undefined (NULL) if the denominator is 0"
    yield "cutoff", "optional" if metric.cut else "has none"
    yield "needs", NEEDS.get(metric.needs, "a click log")
    yield "sums", "over requests, value = numerator / denominator"
    numerator, denominator = measure.added
    yield "numerator", numerator
    yield "denominator", denominator
    yield (
        "presets",
        f"{preset} changes nothing here: conventions are about lists and labels; in a click log "
        "the keys under clicks decide what counts",
    )


def _sql(measure: Online, compiled: Compiled) -> Iterator[str]:
    """The last statement; those before it clean the log, whatever the metric is."""
    spec = online_spec(measure, tables={name: {"relation": f"my_{name}"} for name in COLUMNS})
    yield "SQL, one row per system (sqlmetrics compile also prints the cleaning)"
    yield compiled(spec).rpartition(";\n\n")[2].rstrip("\n;")


def _worked(measure: Online, example: OnlineExample) -> Iterator[str]:
    yield "Example: a small click log, one row per request"
    names = ["request", "session", "shown", "clicked", "bought", "numerator", "denominator"]
    if measure.of_visits:
        names[2:3] = ["asked", "at"]
    rows = [
        (*_told(request, of_visits=measure.of_visits), *map(number, part))
        for request, part in zip(LOG, example.parts, strict=True)
    ]
    yield Table(names, rows, len(names) - 2).text()
    if measure.of_visits:
        yield "asked desk, at 120: the query desk, after 120 minutes"
    yield (
        "clicked d:3s/40s: a click on item d after 3 seconds, and a stay of 40 seconds\n"
        "bought d:19: item d, for an amount of 19"
    )
    sums = [number(sum(column)) for column in zip(*example.parts, strict=True)]
    steps = zip(names[-2:], zip(*example.parts, strict=True), sums, strict=True)
    lines = [
        hung(name, f"{' + '.join(map(number, terms))} = {total}", 18)
        for name, terms, total in steps
    ]
    lines.append(hung(str(measure), f"{' / '.join(sums)} = {number(example.value)}", 18))
    yield "\n".join(lines)
    yield compared(example.value, example.sql_value, example.difference)
    yield "The SQL's result with other keys under clicks in the spec"
    (_, *first_values), *other_rows = example.rows
    different = [row for row in other_rows if [*row[1:]] != first_values]
    same = [row[0] for row in other_rows if row not in different]
    names = ["clicks", "numerator", "denominator", "value"]
    yield Table(names, [("as above", *first_values), *different], 1).text()
    if same:
        yield paragraph("Same result with ", same)


def _told(request: Request, *, of_visits: bool) -> tuple[str, ...]:
    clicks = " ".join(f"{c.item}:{c.after:g}s/{c.stay:g}s" for c in request.clicks)
    bought = (f"{i}:{paid:g}" for i, paid in zip(request.bought, request.paid, strict=True))
    lists = [request.query, f"{request.at / 60:g}"] if of_visits else [" ".join(request.shown)]
    return request.name, request.session, *lists, clicks, " ".join(bought)

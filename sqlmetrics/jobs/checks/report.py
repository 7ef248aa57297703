"""Verdicts as a table, as JUnit XML, and as annotations of GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from xml.etree import ElementTree as ET

from sqlmetrics.evaluation.report.failure import Failure, value_text
from sqlmetrics.jobs.checks.verdict import Verdict
from sqlmetrics.tables.table import Table, printable, terminal_width

COLORS = {"FAILED": "bold red", "warn": "yellow"}
ORDER = ("FAILED", "warn", "ok")


def verdict_table(verdicts: Sequence[Verdict], *, is_dated: bool = False) -> Table:
    """One row a verdict, those that fail first; columns that say nothing are left out.

    Args:
        verdicts: What was found. Where that is of several days, each row has its own.
        is_dated: Whether each row has its day in any case.
    """
    ranked = sorted(verdicts, key=_status_order)
    several = is_dated or len({verdict.day for verdict in ranked}) > 1
    columns = {
        "status": [verdict.status for verdict in ranked],
        "day": [str(verdict.day) if several else "" for verdict in ranked],
        "metric": [verdict.what for verdict in ranked],
        "rule": [verdict.rule for verdict in ranked],
        "system": [printable(verdict.system) if verdict.system else "" for verdict in ranked],
        "segment": [printable(verdict.segment) if verdict.segment else "" for verdict in ranked],
        "value": [value_text(verdict.value) for verdict in ranked],
        "baseline": [value_text(verdict.compared) for verdict in ranked],
        "note": [verdict.note for verdict in ranked],
    }
    filled_columns = {name: cells for name, cells in columns.items() if any(cells)}
    rows = list(zip(*filled_columns.values(), strict=True))
    colors = {(i, 0): COLORS[row[0]] for i, row in enumerate(rows) if row[0] in COLORS}
    return Table(list(filled_columns), rows, styles=colors)


def table(verdicts: Sequence[Verdict], *, styled: bool = False, is_dated: bool = False) -> str:
    """One line a verdict; where that is wider than the terminal, each rule stands once, above.

    Args:
        verdicts: What was found.
        styled: Whether what does not hold has a colour, by marks of terminals.
        is_dated: As of `verdict_table`.
    """
    result, width = verdict_table(verdicts, is_dated=is_dated), terminal_width()
    if width is not None and not result.fits(width):
        grouped = _by_rule(sorted(verdicts, key=_status_order), result, width, styled=styled)
        if grouped is not None:
            return grouped
    return result.text(styled=styled)


def _by_rule(
    verdicts: Sequence[Verdict], verdict_rows: Table, width: int, *, styled: bool
) -> str | None:
    """The same in a narrow terminal: each rule once, as a line above its verdicts.

    Returns:
        None if that is too wide as well.
    """
    rules = [(verdict.what, verdict.rule) for verdict in verdicts]
    order = sorted(range(len(rules)), key=lambda i: rules.index(rules[i]))
    kept = [i for i, name in enumerate(verdict_rows.columns) if name not in ("metric", "rule")]
    names, *rows = (
        [row[i] for i in kept]
        for row in (verdict_rows.columns, *(verdict_rows.rows[i] for i in order))
    )
    colors = {(i, 0): COLORS[row[0]] for i, row in enumerate(rows) if row[0] in COLORS}
    narrow_table = Table(names, rows, styles=colors)
    if not narrow_table.fits(width):
        return None
    head, *lines = narrow_table.text(full_width=True, styled=styled).splitlines()
    below, last = [head], None
    for i, line in zip(order, lines, strict=True):
        below += [] if rules[i] == last else wrap(": ".join(filter(None, rules[i])), width)
        below.append(line)
        last = rules[i]
    return "\n".join(below)


def junit(verdicts: Sequence[Verdict], suite: str) -> str:
    """JUnit's XML: one test case a verdict; what only warns passes, with a line of output."""
    failed = sum(verdict.status == "FAILED" for verdict in verdicts)
    attributes = {
        "name": suite,
        "tests": str(len(verdicts)),
        "failures": str(failed),
        "errors": "0",
    }
    root = ET.Element("testsuites")
    cases = ET.SubElement(root, "testsuite", attributes)
    several = len({verdict.day for verdict in verdicts}) > 1
    for verdict in verdicts:
        name = _xml(f"{verdict.name} on {verdict.day}" if several else verdict.name)
        case = ET.SubElement(cases, "testcase", {"classname": suite, "name": name})
        if verdict.status == "warn":
            ET.SubElement(case, "system-out").text = f"warning: {_xml(failure_text(verdict))}"
        if verdict.status == "FAILED":
            failure = ET.SubElement(case, "failure", {"message": _xml(failure_text(verdict))})
            failure.text = _xml(failure_text(verdict))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def github(verdicts: Sequence[Verdict], file: str) -> str:
    """GitHub's workflow commands: an error or a warning a verdict, at the spec's file."""
    kinds = {"warn": "warning", "FAILED": "error"}
    return "".join(
        f"::{kinds[verdict.status]} "
        f"file={_escaped(file, property=True)},title={_escaped(verdict.name, property=True)}"
        f"::{_escaped(failure_text(verdict))}\n"
        for verdict in verdicts
        if not verdict.holds
    )


def failures(verdicts: Sequence[Verdict]) -> str:
    """What is told of those that do not hold, the ones that fail first; as wide as a terminal."""
    not_held = sorted((verdict for verdict in verdicts if not verdict.holds), key=_status_order)
    text = "\n".join(f"{verdict.status}: {failure_text(verdict)}" for verdict in not_held)
    width = terminal_width()
    if width is None:
        return text
    lines = (wrap(line, width, subsequent_indent="    ") for line in text.splitlines())
    return "\n".join("\n".join(parts) for parts in lines)


def failure_text(verdict: Verdict) -> str:
    """What every recipient is told of a verdict that does not hold."""
    return str(verdict.failure or Failure(verdict.rule, verdict.what))


def _status_order(verdict: Verdict) -> int:
    return ORDER.index(verdict.status)


def _escaped(text: str, *, property: bool = False) -> str:  # noqa: A002 (GitHub's own word)
    for character, escape in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(character, escape)
    if property:
        text = text.replace(":", "%3A").replace(",", "%2C")
    return text


def _xml(text: str) -> str:
    """Text without what XML cannot hold."""
    return "".join(
        character if character >= " " or character in "\t\n" else "?" for character in text
    )

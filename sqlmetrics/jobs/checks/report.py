"""Verdicts as a table, as JUnit XML, and as annotations of GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from xml.etree import ElementTree as ET

from sqlmetrics.evaluation.report.failure import Failure, value_text
from sqlmetrics.evaluation.report.table import aligned, fits, printable, terminal_width
from sqlmetrics.jobs.checks.verdict import Verdict

COLORS = {"FAILED": "bold red", "warn": "yellow"}
ORDER = ("FAILED", "warn", "ok")


def table(verdicts: Sequence[Verdict], *, styled: bool = False, is_dated: bool = False) -> str:
    """One line a verdict, those that fail first; columns that say nothing are left out.

    Where that is wider than the terminal, each rule stands once, above its verdicts.

    Args:
        verdicts: What was found. Where that is of several days, each line has its own.
        styled: Whether what does not hold has a colour, by marks of terminals.
        is_dated: Whether each line has its day in any case.
    """
    found = sorted(verdicts, key=_place)
    several = is_dated or len({one.day for one in found}) > 1
    columns = {
        "": [one.status for one in found],
        "day": [str(one.day) if several else "" for one in found],
        "what": [one.what for one in found],
        "rule": [one.rule for one in found],
        "system": [printable(one.system) if one.system else "" for one in found],
        "segment": [printable(one.segment) if one.segment else "" for one in found],
        "value": [value_text(one.value) for one in found],
        "compared": [value_text(one.compared) for one in found],
        "note": [one.note for one in found],
    }
    told = {name: cells for name, cells in columns.items() if any(cells)}
    colors = {(i, 0): COLORS[one.status] for i, one in enumerate(found) if one.status in COLORS}
    rows = list(zip(*told.values(), strict=True))
    width = terminal_width()
    if width is not None and not fits(told, rows, width):
        grouped = _by_rule(found, told, width, styled=styled)
        if grouped is not None:
            return grouped
    return aligned(list(told), rows, styles=colors if styled else {})


def _by_rule(
    found: Sequence[Verdict], columns: Mapping[str, Sequence[str]], width: int, *, styled: bool
) -> str | None:
    """The same in a narrow terminal: each rule once, as a line above its verdicts.

    Returns:
        None if that is too wide as well.
    """
    rules = list(dict.fromkeys((one.what, one.rule) for one in found))
    order = sorted(range(len(found)), key=lambda i: rules.index((found[i].what, found[i].rule)))
    told = {name: columns[name] for name in columns if name not in ("what", "rule")}
    rows = [[cells[i] for cells in told.values()] for i in order]
    if not fits(told, rows, width):
        return None
    colors = {
        (row, 0): COLORS[found[i].status]
        for row, i in enumerate(order)
        if styled and found[i].status in COLORS
    }
    head, *lines = aligned(list(told), rows, styles=colors, whole=True).splitlines()
    below, last = [head], None
    for i, line in zip(order, lines, strict=True):
        rule = (found[i].what, found[i].rule)
        below += [] if rule == last else wrap(": ".join(filter(None, rule)), width)
        below.append(line)
        last = rule
    return "\n".join(below)


def junit(verdicts: Sequence[Verdict], suite: str) -> str:
    """JUnit's XML: one test case a verdict; what only warns passes, with a line of output."""
    failed = sum(one.status == "FAILED" for one in verdicts)
    whole = {"name": suite, "tests": str(len(verdicts)), "failures": str(failed), "errors": "0"}
    root = ET.Element("testsuites")
    cases = ET.SubElement(root, "testsuite", whole)
    several = len({one.day for one in verdicts}) > 1
    for one in verdicts:
        name = _xml(f"{one.name} on {one.day}" if several else one.name)
        case = ET.SubElement(cases, "testcase", {"classname": suite, "name": name})
        if one.status == "warn":
            ET.SubElement(case, "system-out").text = f"warning: {_xml(failure_text(one))}"
        if one.status == "FAILED":
            failure = ET.SubElement(case, "failure", {"message": _xml(failure_text(one))})
            failure.text = _xml(failure_text(one))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def github(verdicts: Sequence[Verdict], file: str) -> str:
    """GitHub's workflow commands: an error or a warning a verdict, at the spec's file."""
    kinds = {"warn": "warning", "FAILED": "error"}
    return "".join(
        f"::{kinds[one.status]} "
        f"file={_escaped(file, property=True)},title={_escaped(one.name, property=True)}"
        f"::{_escaped(failure_text(one))}\n"
        for one in verdicts
        if not one.holds
    )


def failures(verdicts: Sequence[Verdict]) -> str:
    """What is told of those that do not hold, the ones that fail first; as wide as a terminal."""
    not_held = sorted((verdict for verdict in verdicts if not verdict.holds), key=_place)
    text = "\n".join(f"{verdict.status}: {failure_text(verdict)}" for verdict in not_held)
    width = terminal_width()
    if width is None:
        return text
    lines = (wrap(line, width, subsequent_indent="    ") for line in text.splitlines())
    return "\n".join("\n".join(parts) for parts in lines)


def failure_text(verdict: Verdict) -> str:
    """What every recipient is told of a verdict that does not hold."""
    return str(verdict.failure or Failure(verdict.rule, verdict.what))


def _place(verdict: Verdict) -> int:
    return ORDER.index(verdict.status)


def _escaped(text: str, *, property: bool = False) -> str:  # noqa: A002 (GitHub's own word)
    for found, escape in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(found, escape)
    if property:
        text = text.replace(":", "%3A").replace(",", "%2C")
    return text


def _xml(text: str) -> str:
    """Text without what XML cannot hold."""
    return "".join(one if one >= " " or one in "\t\n" else "?" for one in text)

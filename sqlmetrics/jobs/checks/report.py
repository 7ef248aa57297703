"""Verdicts as a table, as JUnit XML, and as annotations of GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from sqlmetrics.evaluation.report.table import aligned, printable
from sqlmetrics.jobs.checks.verdict import Verdict


def table(verdicts: Sequence[Verdict]) -> str:
    """One line a verdict, those that fail first."""
    rows = [
        [
            "ok" if one.holds else "FAILED",
            one.what,
            one.rule,
            printable(one.system) if one.system else "",
            printable(one.segment) if one.segment else "",
            str(one.day or ""),
            _number(one.value),
            _number(one.compared),
            one.note,
        ]
        for one in sorted(verdicts, key=lambda one: one.holds)
    ]
    head = ["", "what", "rule", "system", "segment", "day", "value", "compared", "note"]
    return aligned(head, rows)


def junit(verdicts: Sequence[Verdict], suite: str) -> str:
    """JUnit's XML: one test case a verdict."""
    failed = sum(not one.holds for one in verdicts)
    whole = {"name": suite, "tests": str(len(verdicts)), "failures": str(failed), "errors": "0"}
    root = ET.Element("testsuites")
    cases = ET.SubElement(root, "testsuite", whole)
    for one in verdicts:
        case = ET.SubElement(cases, "testcase", {"classname": suite, "name": _xml(one.name)})
        if not one.holds:
            failure = ET.SubElement(case, "failure", {"message": _xml(_message(one))})
            failure.text = _xml(_message(one))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def github(verdicts: Sequence[Verdict], file: str) -> str:
    """GitHub's workflow commands: an error a verdict that fails, at the spec's file."""
    return "".join(
        f"::error file={_escaped(file, property=True)},title={_escaped(one.name, property=True)}"
        f"::{_escaped(_message(one))}\n"
        for one in verdicts
        if not one.holds
    )


def _message(one: Verdict) -> str:
    value = f"is {_number(one.value)}" if one.value is not None else "has no value"
    compared = f", compared with {_number(one.compared)}" if one.compared is not None else ""
    note = f" ({one.note})" if one.note else ""
    return f"{one.name}: {one.what} {value} on {one.day}{compared}{note}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):  # a count
        return f"{value:,}"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) > 1 else f"{value:.4f}"


def _escaped(text: str, *, property: bool = False) -> str:  # noqa: A002 (GitHub's own word)
    for found, escape in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(found, escape)
    if property:
        text = text.replace(":", "%3A").replace(",", "%2C")
    return text


def _xml(text: str) -> str:
    """Text without what XML cannot hold."""
    return "".join(one if one >= " " or one in "\t\n" else "?" for one in text)

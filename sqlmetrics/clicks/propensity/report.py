"""Propensities for people: a table, and in words how surely they are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from textwrap import wrap

from sqlmetrics.clicks.propensity.curve import Propensity, PropensityCurve
from sqlmetrics.clicks.propensity.identifiability import Identifiability, Reach
from sqlmetrics.evaluation.report.table import aligned, printable, terminal_width

WIDE = 100
"""Sentences are so wide where no terminal says how wide it is."""


def text(
    curve: PropensityCurve,
    can: Mapping[str | None, Identifiability],
    said: Iterable[str],
) -> str:
    """Propensities as a table, and below it what they mean.

    Args:
        curve: The propensities.
        can: Group -> what the log can tell of it; none of given propensities.
        said: More lines.
    """
    has_groups = curve.groups != (None,)
    ties = {(one.group, one.position): one for own in can.values() for one in own.positions}
    names = ["layout"] * has_groups + ["position", "propensity", "from", "to"]
    names += ["shown", "clicked", "weakest link"] if ties else []
    rows = [
        [
            *([printable(one.group or "")] if has_groups else []),
            *_numbers(one),
            *(_tie(ties[one.group, one.position]) if ties else []),
        ]
        for one in curve.rows
    ]
    table = aligned(names, rows, numbers_from=int(has_groups))
    weakest = (_weakest(group, one) for group, one in can.items())
    method = f"method: {curve.method}; against position 1"
    width = terminal_width() or WIDE
    lines = [
        line
        for one in (method, *weakest, *said)
        for line in wrap(one, width, break_on_hyphens=False)
    ]
    return "\n".join([table, "", *lines, f"given: {given(curve)}"])


def _numbers(one: Propensity) -> list[str]:
    ends = [f"{end:.4f}" if end is not None else "-" for end in (one.ci_low, one.ci_high)]
    return [str(one.position), f"{one.propensity:.4f}", *ends]


def _tie(reach: Reach) -> list[str]:
    link = "-" if reach.link_clicks == inf else f"{reach.link_clicks:,.0f}"
    return [f"{reach.n_impressions:,.0f}", f"{reach.n_clicks:,.0f}", link]


def _weakest(group: str | None, one: Identifiability) -> str:
    of = f"{printable(group)}: " if group is not None else ""
    linked = f"{len(one.strong)} links of {one.min_clicks} clicks or more; " if one.links else ""
    return f"{of}{linked}the worst tied position hangs on {one.weakest:,.0f} clicks"


def given(curve: PropensityCurve) -> str:
    """The curve as the spec's `propensity.given` takes it."""
    curves: dict[str | None, list[str]] = {}
    for one in curve.rows:
        curves.setdefault(one.group, []).append(f"{one.position}: {one.propensity:.6g}")
    told = {group: "{" + ", ".join(own) + "}" for group, own in curves.items()}
    if None in told:
        return told[None]
    return "{" + ", ".join(f"{group}: {own}" for group, own in told.items()) + "}"

"""The first sentence of a report: which system, metric and slice, how far, and how sure."""

from __future__ import annotations

import math

from sqlmetrics.comparison.page.content import ALL, Content, Verdict
from sqlmetrics.comparison.page.means import pooled
from sqlmetrics.comparison.page.stages import describe_losses
from sqlmetrics.comparison.page.words import Words, number, signed
from sqlmetrics.comparison.report.numbers import coverage, p_value
from sqlmetrics.comparison.report.worst_slice import (
    MOVED,
    farthest,
    leading_row,
    segment_of,
    worst_slice,
)
from sqlmetrics.tables.tabular import Row

_ONLINE = ("ctr", "abandonment")
"""Metrics of a log that its headline tells, too."""


def headline(content: Content, words: Words) -> list[str]:
    """The verdict: one sentence, and what goes with it.

    Args:
        content: The numbers.
        words: The language.
    """
    main = content.main
    sentences = _compared(content, words) if content.rows else []
    sentences = sentences or _single(content, words)
    funnel_rows = [
        row for row in content.funnel if (row["segment_name"], row["system"]) == (ALL, main)
    ]
    if funnel_rows:
        sentences = [*sentences, describe_losses(funnel_rows, words)]
    verdicts = [addition for addition in content.additions if isinstance(addition, Verdict)]
    decided = [sentence for verdict in verdicts for sentence in verdict.sentences(words)]
    return [*sentences, *decided, *_of_log(content, words), *_of_labels(content, words)]


def _of_log(content: Content, words: Words) -> list[str]:
    """How the first metric and those of the log itself fare, where the verdict is of another."""
    leading = _leading_row(content)
    if content.log is None or leading is None:
        return []
    metrics = (content.first, *_ONLINE)
    other_metrics = [
        f"{row['metric']} {number(row['baseline_value'])} → {number(row['value'])} "
        f"({words('verdict.' + row['verdict'])})"
        for row in content.overall(content.main)
        if row["metric"] in metrics and row["metric"] != leading["metric"]
    ]
    return [words("headline.beside", metrics=", ".join(other_metrics))] if other_metrics else []


def _of_labels(content: Content, words: Words) -> list[str]:
    """Whether clicks are corrected for how often positions are looked at."""
    if content.log is None:
        return []
    return [words(f"headline.{'corrected' if content.log.propensities else 'not_corrected'}")]


def mood(content: Content) -> str:
    """`better`, `worse` or `unclear`: the colour of the verdict."""
    row = _leading_row(content)
    slice_ = worst_slice(content.slices(content.main), row["metric"]) if row else None
    if slice_ is not None:
        return "worse"
    return str(row["verdict"]) if row and row["verdict"] in MOVED else "unclear"


def _leading_row(content: Content) -> Row | None:
    """The first metric that moved, of the system that the report is about; else the first."""
    return leading_row(content.overall(content.main))


def _compared(content: Content, words: Words) -> list[str]:
    row = _leading_row(content)
    if row is None or row["difference"] is None:
        return []
    sentences = [_several(content, row, words)] if len(content.others) > 1 else []
    of_metric = [
        slice_row
        for slice_row in content.slices(content.main)
        if slice_row["metric"] == row["metric"]
    ]
    worst = worst_slice(content.slices(content.main), row["metric"])
    if row["verdict"] in MOVED:
        sentences.append(words(f"headline.{row['verdict']}", **_told(content, row, words)))
        if worst is not None:
            kind = "but_slice" if row["verdict"] == "better" else "most_slice"
            sentences.append(words(f"headline.{kind}", **_told(content, worst, words)))
        return sentences
    moved = worst or farthest(
        [slice_row for slice_row in of_metric if slice_row["verdict"] == "better"]
    )
    if moved is not None:
        kind = f"only_{moved['verdict']}"
        return [*sentences, words(f"headline.{kind}", **_told(content, moved, words))]
    if row["verdict"] == "equivalent":
        return [*sentences, words("headline.equivalent", **_told(content, row, words))]
    main_rows = (main_row for main_row in content.rows if main_row["system"] == content.main)
    compared = [main_row for main_row in main_rows if main_row["p_value"] is not None]
    kind = "nothing" if compared else "too_few"
    counted = words.n(len(compared))
    sentences.append(words(f"headline.{kind}", **_told(content, row, words), count=counted))
    if row["smallest_detectable"]:
        sentences.append(words("headline.shown", smallest=number(row["smallest_detectable"])))
    return sentences


def _several(content: Content, row: Row, words: Words) -> str:
    """How the other systems fare by the same metric."""
    metric_rows = [
        metric_row for metric_row in content.overall() if metric_row["metric"] == row["metric"]
    ]
    counts = {
        name: sum(metric_row["verdict"] == name for metric_row in metric_rows) for name in MOVED
    }
    return words(
        "headline.several",
        count=len(metric_rows),
        metric=row["metric"],
        baseline=content.baseline,
        **counts,
        unclear=len(metric_rows) - sum(counts.values()),
    )


def _told(content: Content, row: Row, words: Words) -> dict[str, object]:
    return {
        "system": row["system"],
        "baseline": row["baseline"],
        "metric": row["metric"],
        "segment": segment_of(row),
        "before": number(row["baseline_value"]),
        "after": number(row["value"]),
        "difference": signed(row["difference"]),
        "margin": f"{content.margin:g}",
        "counted": words(f"unit.{content.counted}"),
        "certainty": certainty(content, row, words),
    }


def certainty(content: Content, row: Row, words: Words, counted: str = "") -> str:
    """The interval, p and how many queries, or what else is counted."""
    n = words.counted(counted or content.counted, row["n"])
    if row["ci_low"] is None:
        return words("headline.uncertain", n=n)
    ends = {"low": signed(row["ci_low"]), "high": signed(row["ci_high"])}
    level = coverage([row], content.level)
    p = row.get("p_adjusted")
    if p is None:
        return words("headline.certainty_bare", level=level, n=n, **ends)
    return words("headline.certainty", level=level, n=n, p=p_value(p, content.level), **ends)


def _single(content: Content, words: Words) -> list[str]:
    """The number of a system by itself, and whether its last day is like the others."""
    rows = [row for row in content.means(content.first) if row["system"] == content.main]
    total = pooled(rows, content.level)
    if total is None and content.funnel:
        return []
    if total is None:
        return [words("headline.no_number")]
    values = {
        "metric": content.first,
        "system": content.main,
        "value": number(total["value"]),
        "n": words.counted(content.averaged, total["n"]),
    }
    if total["ci_low"] is None:
        sentences = [words("headline.single_bare", **values)]
    else:
        ends = {"low": number(total["ci_low"]), "high": number(total["ci_high"])}
        level = f"{100 * content.level:g}"
        sentences = [words("headline.single", **values, **ends, level=level)]
    return [*sentences, *_last_day(content, rows, words)]


def _last_day(content: Content, rows: list[Row], words: Words) -> list[str]:
    """The last day beside those before it, if there are some."""
    if len(rows) < 3:
        return []
    rows = sorted(rows, key=lambda row: str(row["metric_date"]))
    before, last = pooled(rows[:-1], content.level), pooled(rows[-1:], content.level)
    if not (before and last) or None in (before["ci_low"], last["ci_low"]):
        return []
    difference = last["value"] - before["value"]
    half_width = math.hypot(last["ci_high"] - last["value"], before["ci_high"] - before["value"])
    row = {"ci_low": difference - half_width, "ci_high": difference + half_width, "n": last["n"]}
    kind = "last_day_moved" if abs(difference) > half_width else "last_day"
    certainty_text = certainty(content, row, words, content.averaged)
    day = str(rows[-1]["metric_date"])
    return [
        words(f"headline.{kind}", day=day, difference=signed(difference), certainty=certainty_text)
    ]

"""A report as one HTML page that loads nothing: pictures are drawn into it, wide and narrow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sqlmetrics.comparison.page.content import (
    ALL,
    ROOM,
    Content,
    Verdict,
    Words,
    number,
    pooled,
    signed,
)
from sqlmetrics.comparison.page.lists import describe_losses, left_out
from sqlmetrics.comparison.page.picture import COLORS, NARROW, WIDE, Chart, Picture, inline
from sqlmetrics.comparison.report import (
    MOVED,
    coverage,
    farthest,
    leading_row,
    p_value,
    segment_of,
    worst_slice,
)
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.template import templates_folder
from sqlmetrics.tables.table import Table, markdown_text, wrapped
from sqlmetrics.tables.tabular import Row

# The first sentence of a report: which system, metric and slice, how far, and how sure.

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
    sentences = [_several(content, row, words)] if len(content.compared_systems) > 1 else []
    of_metric = [
        slice_row
        for slice_row in content.slices(content.main)
        if slice_row["metric"] == row["metric"]
    ]
    worst = worst_slice(content.slices(content.main), row["metric"])
    if row["verdict"] in MOVED:
        sentences.append(
            words(f"headline.{row['verdict']}", **_finding_values(content, row, words))
        )
        if worst is not None:
            kind = "but_slice" if row["verdict"] == "better" else "most_slice"
            sentences.append(words(f"headline.{kind}", **_finding_values(content, worst, words)))
        return sentences
    moved = worst or farthest(
        [slice_row for slice_row in of_metric if slice_row["verdict"] == "better"]
    )
    if moved is not None:
        kind = f"only_{moved['verdict']}"
        return [*sentences, words(f"headline.{kind}", **_finding_values(content, moved, words))]
    if row["verdict"] == "equivalent":
        return [*sentences, words("headline.equivalent", **_finding_values(content, row, words))]
    main_rows = (main_row for main_row in content.rows if main_row["system"] == content.main)
    compared = [main_row for main_row in main_rows if main_row["p_value"] is not None]
    kind = "nothing" if compared else "too_few"
    counted = words.n(len(compared))
    sentences.append(
        words(f"headline.{kind}", **_finding_values(content, row, words), count=counted)
    )
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


def _finding_values(content: Content, row: Row, words: Words) -> dict[str, object]:
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


@cache
def environment() -> Environment:
    """Jinja for HTML: all that comes from data is escaped."""
    return Environment(
        loader=FileSystemLoader(templates_folder() / ROOM),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page_html(content: Content, pictures: Sequence[Picture], words: Words, version: str) -> str:
    """The whole page.

    Args:
        content: The numbers.
        pictures: What is drawn of them.
        words: The language.
        version: Of the package.
    """
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            **_parts(content, pictures, words),
            whole=True,
            light={name: color for color, (name, _) in COLORS.items()},
            dark=dict(COLORS.values()),
            version=version,
        )
    )


def fragment(content: Content, pictures: Sequence[Picture], words: Words, version: str) -> str:
    """The same as a part of another page, such as a notebook: a frame of its own.

    Args:
        content: The numbers.
        pictures: What is drawn of them.
        words: The language.
        version: Of the package.
    """
    text = page_html(content, pictures, words, version)
    title = Markup.escape(content.title)
    return (
        f'<iframe title="{title}" srcdoc="{Markup.escape(text)}" '
        'style="width: 100%; height: 720px; border: 0"></iframe>'
    )


def _parts(content: Content, pictures: Sequence[Picture], words: Words) -> dict[str, Any]:
    return {
        "content": content,
        "headline": [_together(sentence) for sentence in headline(content, words)],
        "mood": mood(content),
        "pictures": [_picture_view(picture, words) for picture in pictures],
        "left_out": left_out(content, words),
        "words": words,
    }


def _picture_view(picture: Picture, words: Words) -> Row:
    """What the template needs of a picture."""
    return {
        "picture": picture,
        "title": picture.title(words),
        "about": _together(picture.sentence(words)),
        "look": picture.look(words),
        "drawings": drawings(picture.chart, picture.key, words),
    }


def _together(text: str) -> str:
    """A sentence whose lines do not break before a percent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def drawings(chart: Chart, key: str, words: Words) -> dict[str, Markup]:
    """`wide` and `narrow` -> the picture for a page.

    Args:
        chart: The chart.
        key: What its ids begin with.
        words: The language.
    """
    sizes = {"wide": WIDE, "narrow": NARROW}
    return {
        name: Markup(inline(chart.svg(words, size), f"{key}-{name}"))  # noqa: S704 (our own SVG)
        for name, size in sizes.items()
    }


# A report as Markdown, LaTeX and text for a terminal; one picture as PNG and SVG.

BLOCKS = "▁▂▃▄▅▆▇█"
LEAST_SPAN = 1e-9
"""Values nearer to each other than this share of them are the same."""

LINES = 12
"""As many rows of a table stand in a terminal."""


def markdown(content: Content, pictures: Sequence[Picture], words: Words) -> str:
    """The verdict, and each picture as a table with what to look for."""
    return "\n\n".join(_markdown(content, pictures, words)) + "\n"


def _markdown(content: Content, pictures: Sequence[Picture], words: Words) -> Iterator[str]:
    first, *sentences = headline(content, words)
    yield f"# {markdown_text(content.title)}"
    yield f"**{markdown_text(first)}**"
    yield from map(markdown_text, sentences)
    for picture in pictures:
        yield f"## {picture.title(words)}" + (
            f": {markdown_text(picture.suffix)}" if picture.suffix else ""
        )
        yield markdown_text(picture.sentence(words))
        yield picture.table.markdown()
        yield f"**{words('page.look')}** {markdown_text(picture.look(words))}"
    hidden = left_out(content, words)
    if hidden:
        yield f"## {words('page.left_out')}"
        yield "\n".join(f"- {markdown_text(text)}" for text in hidden)
    yield f"## {words('page.conventions')}"
    if content.notes:
        yield "\n".join(f"- {markdown_text(note)}" for note in content.notes)
    options = [[name, str(value)] for name, value in content.conventions.items()]
    if options:
        yield words("page.conventions_about", preset=content.preset)
        yield Table([words("page.option"), words("page.value")], options).markdown()
    if content.hashes:
        names = [words("column.metric"), words("page.hash")]
        yield Table(names, list(content.hashes.items())).markdown()


def latex(pictures: Sequence[Picture], words: Words) -> str:
    """The first picture with a table as a `tabular` of booktabs."""
    if not pictures:
        return ""
    first = pictures[0]
    return replace(first.table, notes=[first.sentence(words)]).latex() + "\n"


def text(content: Content, pictures: Sequence[Picture], words: Words) -> str:
    """The verdict, then tables, with a line of the days."""
    parts = [wrapped([line]) for line in headline(content, words)]
    for picture in pictures:
        parts.append(f"{picture.title(words)}\n{wrapped([picture.sentence(words)])}".rstrip())
        if picture.name in ("days", "trend"):
            parts.append(_lines(picture, content))
        table, n_more = picture.table, len(picture.cells) - LINES
        ellipsis = f"\n... {n_more:,}" if n_more > 0 else ""
        parts.append(replace(table, rows=table.rows[:LINES]).text() + ellipsis)
    return "\n\n".join(parts)


def _lines(picture: Picture, content: Content) -> str:
    """A line of blocks a system, from the first day to the last."""
    name = "difference" if picture.name == "days" else "value"
    lines: dict[str, list[float | None]] = {}
    for row in picture.chart.rows:
        lines.setdefault(row.get("system", content.main), []).append(row[name])
    widest = max(map(len, lines), default=0)
    return "\n".join(
        f"{system.ljust(widest)}  {sparkline(values)}" for system, values in lines.items()
    )


def sparkline(values: Sequence[float | None]) -> str:
    """Values as a line of blocks, the lowest the lowest block; flat if only last digits differ.

    >>> sparkline([0, 1, 2, 7]), sparkline([3, 3 + 1e-15]), sparkline([1, None, 2])
    ('▁▂▃█', '▁▁', '▁ █')
    """
    numbers = [value for value in values if value is not None]
    low, high = min(numbers, default=0), max(numbers, default=0)
    span = max(high - low, LEAST_SPAN * max(1.0, abs(low), abs(high)))
    top = len(BLOCKS) - 1
    return "".join(
        " " if value is None else BLOCKS[round((value - low) / span * top)] for value in values
    )


def find_picture(pictures: Sequence[Picture], name: str) -> Picture:
    """A picture by its name, or by the first of its kind.

    Raises:
        SpecError: If there is none.
    """
    matches = [picture for picture in pictures if name in (picture.key, picture.name)]
    if not matches:
        raise SpecError(unknown("chart", name, [picture.key for picture in pictures]))
    return matches[0]

"""A report as Markdown, LaTeX and text for a terminal; one picture as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.headline import headline
from sqlmetrics.comparison.page.lists import left_out
from sqlmetrics.comparison.page.picture import Picture
from sqlmetrics.comparison.page.words import Words
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.tables.table import Table, markdown_text, wrapped

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
            f": {markdown_text(picture.more)}" if picture.more else ""
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
    lines: dict[str, list[float]] = {}
    for row in picture.chart.rows:
        lines.setdefault(row.get("system", content.main), []).append(row[name])
    widest = max(map(len, lines), default=0)
    return "\n".join(
        f"{system.ljust(widest)}  {sparkline(values)}" for system, values in lines.items()
    )


def sparkline(values: Sequence[float]) -> str:
    """Values as a line of blocks, the lowest the lowest block; flat if only last digits differ.

    >>> sparkline([0, 1, 2, 7]), sparkline([3, 3 + 1e-15])
    ('▁▂▃█', '▁▁')
    """
    low, high = min(values, default=0), max(values, default=0)
    span = max(high - low, LEAST_SPAN * max(1.0, abs(low), abs(high)))
    return "".join(BLOCKS[round((value - low) / span * (len(BLOCKS) - 1))] for value in values)


def find_picture(pictures: Sequence[Picture], name: str) -> Picture:
    """A picture by its name, or by the first of its kind.

    Raises:
        SpecError: If there is none.
    """
    matches = [picture for picture in pictures if name in (picture.key, picture.name)]
    if not matches:
        raise SpecError(unknown("chart", name, [picture.key for picture in pictures]))
    return matches[0]

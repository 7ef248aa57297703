"""A report as one HTML page that loads nothing: pictures are drawn into it, wide and narrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sqlmetrics.comparison.page.charts import COLORS, NARROW, WIDE, Chart, inline
from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.headline import headline, mood
from sqlmetrics.comparison.page.lists import left_out
from sqlmetrics.comparison.page.picture import Picture
from sqlmetrics.comparison.page.words import ROOM, Words
from sqlmetrics.sql.template import folder
from sqlmetrics.tables.tabular import Row


@cache
def environment() -> Environment:
    """Jinja for HTML: all that comes from data is escaped."""
    return Environment(
        loader=FileSystemLoader(folder() / ROOM),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(content: Content, pictures: Sequence[Picture], words: Words, version: str) -> str:
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
    text = page(content, pictures, words, version)
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
        "pictures": [_drawn(picture, words) for picture in pictures],
        "left_out": left_out(content, words),
        "words": words,
    }


def _drawn(picture: Picture, words: Words) -> Row:
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

"""A picture of a report: a chart, its numbers as a table, and what to look for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlmetrics.comparison.page.charts import Chart, can_draw, standing
from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.words import Words, signed
from sqlmetrics.comparison.report.numbers import coverage
from sqlmetrics.tables.table import Table


@dataclass(frozen=True)
class Shown:
    """An item of a list as it is shown.

    Attributes:
        rank: Its place.
        name: Its title and id.
        grade: Its label; None without one.
        mark: What became of it.
        pair: A number that it has in both lists, which a line joins; None if it is in one.
    """

    rank: int
    name: str
    grade: float | None
    mark: str
    pair: int | None


@dataclass(frozen=True)
class Part:
    """What a click on a mark opens: the numbers of a slice.

    Attributes:
        key: Its name on the page.
        title: What it is, and how far it moved.
        sentence: What else there is to say.
        columns: The headings of its table.
        cells: The rows of it.
    """

    key: str
    title: str
    sentence: str
    columns: Sequence[str]
    cells: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Mover:
    """A query that moved, with both lists.

    Attributes:
        title: The query, and how far it moved.
        could_be_noise: Whether chance alone moves a query as far.
        lists: The baseline's list and the system's.
    """

    title: str
    could_be_noise: bool
    lists: tuple[Sequence[Shown], Sequence[Shown]]


@dataclass(frozen=True)
class Picture:
    """One picture; its title and what to look for are words of the catalogue.

    Attributes:
        name: Its section of the catalogue.
        chart: What is drawn.
        columns: The headings of the table.
        cells: The rows of the table.
        left: Columns from this one on are numbers.
        about: What the sentence below the title is filled with; n and the interval are in it.
        movers: Lists side by side.
        parts: What its marks lead to.
        more: What the name of a file has besides, where there are several of its kind.
        look_for: The key of the words that say what to look for; empty for those of its section.
        left_out: A sentence on what is not drawn; empty where all is.
    """

    name: str
    chart: Chart
    columns: Sequence[str]
    cells: Sequence[Sequence[str]]
    left: int
    about: Mapping[str, object] = field(default_factory=dict)
    movers: Sequence[Mover] = ()
    parts: Sequence[Part] = ()
    more: str = ""
    look_for: str = ""
    left_out: str = ""

    @property
    def key(self) -> str:
        """Its name on a page and among files."""
        return f"{self.name}-{self.more}" if self.more else self.name

    @property
    def table(self) -> Table:
        """Its numbers."""
        return Table(self.columns, self.cells, self.left)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """Its drawing for a notebook; its numbers without the extra `report`."""
        if not can_draw():
            return self.table.html()
        return f"<div>{standing(self.chart.svg(Words()))}</div>"

    def title(self, words: Words) -> str:
        """What is seen."""
        return words(f"{self.name}.title")

    def sentence(self, words: Words) -> str:
        """Of what, of how many, and with which interval; and what is not drawn."""
        return words(f"{self.name}.about", **self.about) + self.left_out

    def look(self, words: Words) -> str:
        """What to look for."""
        return words(self.look_for or f"{self.name}.look")


def ends(words: Words, low: float | None, high: float | None) -> str:
    """The ends of an interval of a difference; a dash where there is none."""
    if low is None or high is None:
        return "–"
    return words("page.to", low=signed(low), high=signed(high))


def rows_left_out(n: int, total: int, words: Words) -> str:
    """A sentence that some rows stand in the table alone; empty if all are drawn.

    Args:
        n: So many are drawn.
        total: So many there are.
        words: The language.
    """
    return words("page.rows_drawn", n=words.n(n), all=words.n(total)) if n < total else ""


NAMED = 10
"""So many systems that are not drawn are named."""


def systems_left_out(systems: Iterable[str], drawn_systems: Sequence[str], words: Words) -> str:
    """A sentence that names the systems that are not drawn; empty if all are.

    Args:
        systems: All of them.
        drawn_systems: Those of the picture.
        words: The language.
    """
    missing = [system for system in dict.fromkeys(systems) if system not in drawn_systems]
    if not missing:
        return ""
    suffix = words("page.more", n=words.n(len(missing) - NAMED)) if len(missing) > NAMED else ""
    return words("page.not_drawn", names=", ".join(missing[:NAMED]) + suffix)


def pair(content: Content, words: Words) -> dict[str, object]:
    """What sentences say of the system, its baseline and their difference."""
    row = content.row(content.main, content.first)
    values: dict[str, object] = {
        "metric": content.first,
        "system": content.main,
        "baseline": content.baseline,
        "level": coverage([row] if row else [], content.level),
        "n": words.n(row["n"] if row else 0),
        "difference": signed(row["difference"] if row else None),
        "interval": ends(words, row["ci_low"], row["ci_high"]) if row else "–",
    }
    return values | {
        name: words.n(row[name]) if row and row[name] is not None else "–"
        for name in ("wins", "ties", "losses")
    }


def sign(value: float) -> int:
    """1, 0 or -1."""
    return (value > 0) - (value < 0)

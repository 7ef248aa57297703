"""A picture of a report: a chart, its numbers as a table, and what to look for."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from importlib.util import find_spec
from typing import Any

from sqlmetrics.comparison.page.content import ROOM, Content, Words, signed
from sqlmetrics.comparison.report import coverage
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.template import templates_folder
from sqlmetrics.tables.table import Table, printable
from sqlmetrics.tables.tabular import Row

# Charts: Vega-Lite files filled with rows and words, and drawn without a browser.

POINTS = 2_000
"""So many points has a picture at the most."""

COLORS: Mapping[str, tuple[str, str]] = {
    "#1f2328": ("ink", "#e6edf3"),
    "#57606a": ("muted", "#9da7b1"),
    "#d8dee4": ("line", "#3a424c"),
    "#1a7f37": ("better", "#3fb950"),
    "#cf222e": ("worse", "#f85149"),
    "#6e7781": ("flat", "#8b949e"),
    "#6e7782": ("flat", "#8b949e"),
    "#5b6771": ("system-1", "#a3aeb8"),
    "#0969da": ("system-2", "#58a6ff"),
    "#bc4c00": ("system-3", "#f0883e"),
    "#8250df": ("system-4", "#bc8cff"),
    "#1b7c83": ("system-5", "#56d4dd"),
    "#bf3989": ("system-6", "#ff7bc6"),
    "#7d6608": ("system-7", "#d4b106"),
    "#3d5a98": ("system-8", "#9fb8ea"),
}
"""Colour on light -> its name in the style of a page, and the colour on dark."""

SYSTEMS = tuple(color for color, (name, _) in COLORS.items() if name.startswith("system-"))
"""Systems, the baseline first; more than these are drawn in the colours again."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"

WIDTHS = (8, 13)
"""About how wide a letter is, and one of Chinese, in pixels."""

BESIDE = 60
"""So much space has an axis of numbers."""

MEASURED = "sans-serif"
"""The font by which texts are measured: one that the drawing brings, the same on each machine.
Looking for each of those that a page names, for each text, is most of the time of a drawing."""

CHART_ENDINGS = (".svg", ".png", ".json")
"""What the name of a file with a chart ends in."""

INSTALL = (
    "a report with pictures needs the extra `report` (Altair and vl-convert): "
    "pip install 'sqlmetrics[report]'"
)


@dataclass(frozen=True)
class Size:
    """How wide charts are, in pixels.

    Attributes:
        page: The space of the marks and of the names beside them.
        labels: The most that a name beside them takes.
        square: A side of what is square.
        panel: A panel of several.
        columns: As many panels stand side by side.
    """

    page: int
    labels: int
    square: int
    panel: int
    columns: int


WIDE = Size(page=760, labels=220, square=360, panel=200, columns=3)
NARROW = Size(page=310, labels=125, square=240, panel=260, columns=1)


@dataclass(frozen=True)
class Chart:
    """A picture before it is drawn.

    Attributes:
        name: The file in `templates/comparison/page/charts`.
        rows: What is drawn, POINTS at most.
        parameters: What the file leaves open, beside sizes and words.
        systems: The systems, in the order of their colours.
    """

    name: str
    rows: Sequence[Row]
    parameters: Row
    systems: Sequence[str] = ()

    def spec(self, words: Words, size: Size = WIDE) -> dict[str, Any]:
        """The Vega-Lite specification.

        Args:
            words: The language.
            size: How wide it is.
        """
        extent = min(size.labels, self._widest)
        width = size.page - max(extent, BESIDE)
        values = dict(vars(size)) | {
            "width": width,
            "width_whole": size.page,
            "label_limit": size.labels,
            "legend_columns": max(1, width // 190),
            "ticks": max(3, width // 75),
            "extent": extent,
            "day_ticks": self._day_ticks(width),
            "systems": list(self.systems),
            "colors": colors(self.systems),
            **self.parameters,
        }
        values = {k: v[size is WIDE] if isinstance(v, Sized) else v for k, v in values.items()}
        filled: dict[str, Any] = {"$schema": SCHEMA}
        filled |= _filled(_file(self.name), values, words, self.rows)
        filled["config"] = _filled(_file("config"), values, words, ())
        return filled

    def _day_ticks(self, width: int) -> list[dict[str, int | bool]]:
        """The days that are named on an axis of this width: so many that they do not overlap."""
        days = [date.fromisoformat(row["day"]) for row in self.rows if "day" in row]
        if not days:
            return []
        first, span = min(days), (max(days) - min(days)).days + 1
        ticks = (first + timedelta(n) for n in range(0, span, max(1, math.ceil(span * 50 / width))))
        return [{"year": d.year, "month": d.month, "date": d.day, "utc": True} for d in ticks]

    @property
    def _widest(self) -> int:
        """About how wide the longest label is in whatever font a reader has."""
        labels = {str(row.get("label", "")) for row in self.rows}
        return max((sum(WIDTHS[ord(c) > 0x2E80] for c in label) for label in labels), default=0) + 8

    def svg(self, words: Words, size: Size = WIDE) -> str:
        """The picture as SVG, in the colours of a light page.

        Raises:
            SpecError: If the extra `report` is not installed.
        """
        import_drawing()
        import vl_convert

        spec = self.spec(words, size)
        fonts = spec["config"]["font"]
        spec["config"]["font"] = MEASURED
        markup: str = vl_convert.vegalite_to_svg(json.dumps(spec))
        markup = markup.replace(f'font-family="{MEASURED}"', f'font-family="{fonts}"')
        # a drawing is one picture to a screen reader: what its marks open stands below it as well
        return _LINK.sub(r'<g data-opens="\1">', markup).replace("</a>", "</g>")

    def as_file(self, ending: str, words: Words) -> bytes:
        """The picture as a file, `.svg` or `.png`; of `.json` its specification.

        Raises:
            SpecError: If it is another ending, or the extra `report` is not installed.
        """
        if ending not in CHART_ENDINGS:
            raise SpecError(f"a chart needs a name that ends in one of {', '.join(CHART_ENDINGS)}")
        if ending == ".json":
            spec = {**self.spec(words), "usermeta": {"made by": "sqlmetrics report"}}
            return (json.dumps(spec, ensure_ascii=False, indent=1) + "\n").encode()
        if ending == ".svg":
            return f"{self.svg(words)}\n<!-- sqlmetrics report -->\n".encode()
        return _signed(self.png(words))

    def png(self, words: Words, size: Size = WIDE) -> bytes:
        """The picture as PNG on white, two pixels to one.

        Raises:
            SpecError: If the extra `report` is not installed.
        """
        import_drawing()
        import vl_convert

        spec = self.spec(words, size)
        spec["config"]["background"] = "#ffffff"
        image: bytes = vl_convert.vegalite_to_png(json.dumps(spec), scale=2)
        return image


class Sized(tuple[Any, Any]):
    """A narrow and a wide value."""

    __slots__ = ()


def _signed(png: bytes) -> bytes:
    """A PNG that says in a comment who wrote it, before the 12 bytes of its end."""
    chunk = b"tEXtComment\0sqlmetrics report"
    size, check = len(chunk) - 4, zlib.crc32(chunk)
    return png[:-12] + size.to_bytes(4) + chunk + check.to_bytes(4) + png[-12:]


def import_drawing() -> None:
    """Raise SpecError if there is nothing to draw with."""
    if not can_draw():
        raise SpecError(INSTALL)


def can_draw() -> bool:
    """Whether the extra `report` is installed."""
    return find_spec("vl_convert") is not None


def standing(svg: str, name: str = "") -> str:
    """A drawing that stands by itself, light or dark as what is around it.

    Args:
        svg: As `Chart.svg` draws it.
        name: What its ids begin with.
    """
    light = "".join(f"--{variable}:{color};" for color, (variable, _) in COLORS.items())
    dark = "".join(f"--{variable}:{color};" for variable, color in COLORS.values())
    style = f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    text = inline(svg, name).replace(' aria-hidden="true" focusable="false"', "", 1)
    return re.sub(r"(<svg[^>]*>)", rf"\1{style}", text, count=1)


def colors(systems: Sequence[str]) -> list[str]:
    """The colour of each system."""
    return [SYSTEMS[i % len(SYSTEMS)] for i in range(len(systems))]


_LINK = re.compile(r'<a xlink:href="[^"#]*#([^"]+)">')
"""A link to a part of the page, as Vega writes it: behind an address that it takes for ours."""


@cache
def _file(name: str) -> Any:
    path = templates_folder() / ROOM / "charts" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def _filled(part: Any, parameters: Row, words: Words, rows: Sequence[Any]) -> Any:
    """A part of a file with `$names` as given, `@keys` as words, and the rows as its data."""
    if part == {"name": "rows"}:
        return {"values": [dict(row) for row in rows]}
    if isinstance(part, dict):
        return {key: _filled(value, parameters, words, rows) for key, value in part.items()}
    if isinstance(part, list):
        return [_filled(element, parameters, words, rows) for element in part]
    if isinstance(part, str) and part.startswith("$"):
        return parameters[part[1:]]
    if isinstance(part, str) and part.startswith("@"):
        return words(part[1:], **parameters.get("words", {}))
    return part


def inline(svg: str, name: str) -> str:
    """A drawing as a part of a page: its colours are the page's, and its ids its own.

    A notebook may have several reports on one page, so the ids have a checksum of the drawing.

    Args:
        svg: As `Chart.svg` draws it.
        name: What its ids begin with.
    """
    text = re.sub(r"<\?xml[^>]*>|<!DOCTYPE[^>]*>", "", svg).strip()
    for color, (variable, _) in COLORS.items():
        text = re.sub(f'"{color}"', f'"var(--{variable})"', text, flags=re.IGNORECASE)
    text = _renumbered(text)
    prefix = f"{name}-{zlib.crc32(text.encode()):08x}"
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _renumbered(svg: str) -> str:
    """A drawing with its ids numbered from 1: Vega goes on counting from one drawing to the next.

    >>> _renumbered('<g clip-path="url(#clip7)"/><clipPath id="clip7"/>')
    '<g clip-path="url(#clip1)"/><clipPath id="clip1"/>'
    """
    ids = dict.fromkeys(re.findall(r'\bid="([^"]*\d)"', svg))
    numbers = {name: re.sub(r"\d+$", str(number), name) for number, name in enumerate(ids, 1)}
    return re.sub(
        r'(\bid="|url\(#|href="#)([^")]*\d)(?=[")])',
        lambda match: match[1] + numbers.get(match[2], match[2]),
        svg,
    )


@dataclass(frozen=True)
class ShownItem:
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
    lists: tuple[Sequence[ShownItem], Sequence[ShownItem]]


@dataclass(frozen=True)
class Picture:
    """One picture; its title and what to look for are words of the catalogue.

    Attributes:
        name: Its section of the catalogue.
        chart: What is drawn.
        columns: The headings of the table.
        cells: The rows of the table.
        first_number: Columns from this one on are numbers.
        about: What the sentence below the title is filled with; n and the interval are in it.
        movers: Lists side by side.
        parts: What its marks lead to.
        suffix: What the name of a file has besides, where there are several of its kind.
        look_for: The key of the words that say what to look for; empty for those of its section.
        left_out: A sentence on what is not drawn; empty where all is.
    """

    name: str
    chart: Chart
    columns: Sequence[str]
    cells: Sequence[Sequence[str]]
    first_number: int
    about: Mapping[str, object] = field(default_factory=dict)
    movers: Sequence[Mover] = ()
    parts: Sequence[Part] = ()
    suffix: str = ""
    look_for: str = ""
    left_out: str = ""

    @property
    def key(self) -> str:
        """Its name on a page and among files."""
        return f"{self.name}-{self.suffix}" if self.suffix else self.name

    @property
    def table(self) -> Table:
        """Its numbers."""
        cells = [list(map(printable, row)) for row in self.cells]
        return Table(self.columns, cells, self.first_number)

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

"""A table of cells for people, which prints itself as text, Markdown, HTML and LaTeX.

As text its columns are as wide as a terminal shows them, emoji and CJK too.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain
from textwrap import wrap

NARROW = 12
"""No column of texts becomes narrower than this for the sake of others."""

DECIMALS = 4
"""So many decimals a metric's value is printed with, unless a preset's tool has others."""

GAP = 2

LATEX_ROWS = 45
"""As many rows of a table a page of a paper holds."""

MOST_ROWS = 500
"""As many rows of a table a terminal shows."""

BAR = "rgba(70, 130, 180, .25)"
"""The colour of bars, on a light and on a dark page."""

_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What would steer a terminal, or turn the direction of a text."""

_MARKUP = r"\\|<(?=[A-Za-z/!?])|(?<=\])\(|&(?=#?\w+;)"
_PROSE, _CELL = re.compile(_MARKUP), re.compile(rf"[|`*]|(?<![^\W_])_|_(?![^\W_])|~~|{_MARKUP}")
"""What would begin a tag, the name of a character or the address of a link, or take away the mark
before one; and, in a cell, what would end it, or begin code or emphasis."""

_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "\N{MINUS SIGN}": "$-$",
        "→": r"$\rightarrow$",
        "\N{EN DASH}": "--",
        "\n": " ",
    }
)


_IN_NOTEBOOK: ContextVar[bool] = ContextVar("in_notebook", default=False)
_FOR_FILE: ContextVar[bool] = ContextVar("for_file", default=False)


def in_notebook() -> AbstractContextManager[None]:
    """While tables are shown by a notebook: of long ones it has the beginning."""
    return _holding(_IN_NOTEBOOK)


def for_file() -> AbstractContextManager[None]:
    """While a text is made for a file: it is whole, and the same on every terminal."""
    return _holding(_FOR_FILE)


@contextmanager
def _holding(variable: ContextVar[bool]) -> Iterator[None]:
    """While a variable is true."""
    token = variable.set(True)
    try:
        yield
    finally:
        variable.reset(token)


@dataclass(frozen=True)
class Table:
    """Cells in rows and columns; each form escapes what it would take for its own.

    Attributes:
        columns: The headings.
        rows: The cells.
        n_labels: How many columns stand before the numbers, which align right; None for a table
            of texts.
        title: What stands above; empty for nothing.
        notes: Lines below.
        styles: Row and column -> how a cell looks: `bold`, or on terminals alone `red`.
        shares: Row and column -> a number from 0 to 1, for a bar behind the cell.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_labels: int | None = None
    title: str = ""
    notes: Sequence[str] = ()
    styles: Mapping[tuple[int, int], str] | None = None
    shares: Mapping[tuple[int, int], float] | None = None

    @property
    def first_number(self) -> int:
        """The column from which on they are numbers."""
        return len(self.columns) if self.n_labels is None else self.n_labels

    def text(self, *, full_width: bool = False, styled: bool = False) -> str:
        """Aligned columns without lines, no wider than the terminal.

        A terminal or notebook shows the first rows of a long table, and how many more there are.
        Where it is too wide, texts go on in the next line; where that is not enough, the numbers
        stand in several tables below one another, each with the texts.

        Args:
            full_width: Whether it may be as wide as it is, for a file.
            styled: Whether styles are shown, by marks of terminals.
        """
        width = None if full_width else terminal_width()
        is_whole = full_width or _FOR_FILE.get()
        is_shortened = not is_whole and (sys.stdout.isatty() or _IN_NOTEBOOK.get())
        table = self.beginning(width) if is_shortened else self
        parts = [table] if width is None else table.split(width)
        tables = [_Grid(part, styled).text(width) for part in parts]
        texts = [visible(self.title), *tables, visible("\n".join(table.notes))]
        return "\n\n".join(filter(None, texts))

    def beginning(self, width: int | None = None) -> Table:
        """The first rows and columns, in `MOST_ROWS` lines, and how many more there are.

        Args:
            width: How wide the terminal is; None for a page, which has all columns in a row.
        """
        table = replace(self, rows=self.rows[:MOST_ROWS])
        parts = [] if width is None else table.parts(width)
        shown_parts = parts[: max(MOST_ROWS // max(len(table.rows), 1), 1)]
        n_columns = sum(len(part) for part in parts) - sum(len(part) for part in shown_parts)
        hidden = [
            many(count, f"more {noun}")
            for count, noun in ((len(self.rows) - len(table.rows), "row"), (n_columns, "column"))
            if count
        ]
        if n_columns:
            table = table._part([*range(self.first_number), *chain.from_iterable(shown_parts)])
        note = f"{' and '.join(hidden)}: files, pipes and to_dicts() have all"
        return replace(table, title=self.title, notes=[note] * bool(hidden) + [*self.notes])

    def split(self, width: int) -> list[Table]:
        """Tables of columns of numbers that stand side by side, each with the texts."""
        parts = self.parts(width)
        first = range(self.first_number)
        return [self] if len(parts) == 1 else [self._part([*first, *part]) for part in parts]

    def parts(self, width: int) -> list[list[int]]:
        """The columns of numbers that stand side by side, in one list or several."""
        first = self.first_number
        widths = [column_width + GAP for column_width in self._widths]
        label_width = sum(widths[:first])
        if sum(widths) > width + GAP:
            label_width = sum(min(column_width, NARROW + GAP) for column_width in widths[:first])
        parts: list[list[int]] = [[]]
        used = label_width
        for column in range(first, len(widths)):
            if parts[-1] and used + widths[column] > width + GAP:
                parts.append([])
                used = label_width
            parts[-1].append(column)
            used += widths[column]
        return parts

    def _part(self, columns: Sequence[int]) -> Table:
        """Some columns of it."""
        places = {column: index for index, column in enumerate(columns)}
        styles = {
            (row, places[column]): style
            for (row, column), style in (self.styles or {}).items()
            if column in places
        }
        names, *rows = ([row[i] for i in columns] for row in (self.columns, *self.rows))
        return Table(names, rows, self.n_labels, styles=styles)

    def fits(self, width: int) -> bool:
        """Whether the columns stand side by side without a text being broken."""
        return sum(self._widths) + GAP * (len(self.columns) - 1) <= width

    @property
    def _widths(self) -> list[int]:
        """How many places the widest cell of each column takes."""
        return [max(map(_width, column)) for column in zip(self.columns, *self.rows, strict=True)]

    def markdown(self) -> str:
        r"""A GitHub table; no text of the data makes a tag, a link or emphasis.

        >>> print(Table(["item"], [["<b>a|b</b>"], ["[x](javascript:alert)"]]).markdown())
        | item |
        | --- |
        | \<b>a\|b\</b> |
        | [x]\(javascript:alert) |
        """
        title = f"**{_markdown_cell(self.title)}**" if self.title else ""
        rule = ["---" if i < self.first_number else "---:" for i in range(len(self.columns))]
        head, *body = (map(_markdown_cell, row) for row in (self.columns, *self.rows))
        table = "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body])
        return "\n\n".join(filter(None, [title, table, markdown_notes(self.notes)]))

    def html(self) -> str:
        """A table for a page: what is bold is, shares have a bar; a notebook has the first rows."""
        part = self.beginning() if _IN_NOTEBOOK.get() else self
        caption = f"<caption>{html_text(self.title)}</caption>" if self.title else ""
        head = "".join(f"<th>{html_text(name)}</th>" for name in part.columns)
        body = "".join(
            f"<tr>{''.join(self._html_cell(i, j) for j in range(len(row)))}</tr>"
            for i, row in enumerate(part.rows)
        )
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return table + html_notes(part.notes)

    def _html_cell(self, row: int, column: int) -> str:
        position = row, column
        style = ["text-align: right"] if column >= self.first_number else []
        if self.shares and position in self.shares:
            end = f"{100 * min(max(self.shares[position], 0.0), 1.0):.1f}%"
            style.append(f"background: linear-gradient(90deg, {BAR} {end}, transparent {end})")
        content = html_text(visible(self.rows[row][column]))
        if self.styles and self.styles.get(position) == "bold":
            content = f"<b>{content}</b>"
        return f'<td style="{"; ".join(style)}">{content}</td>' if style else f"<td>{content}</td>"

    def latex(self) -> str:
        """A table of booktabs for a paper, with the notes as comments below; see `latex_table`."""
        form = "l" * self.first_number + "r" * (len(self.columns) - self.first_number)
        head, *body = ([latex_text(cell) for cell in row] for row in (self.columns, *self.rows))
        return latex_table(form, head, body, self.notes)


def latex_text(text: str) -> str:
    r"""A text for LaTeX, in which nothing is a command.

    >>> print(latex_text("bm25_rm3 & 5 %"))
    bm25\_rm3 \& 5 \%
    """
    return visible(text).translate(_LATEX)


def latex_table(
    form: str, head: Sequence[str], body: Sequence[Sequence[str]], notes: Iterable[str]
) -> str:
    """A `tabular` of booktabs; a `longtable`, which breaks pages, if it is longer than one.

    Args:
        form: The alignment of the columns.
        head: The headings, in LaTeX.
        body: The cells, in LaTeX.
        notes: Lines below, which become comments.
    """
    heading, *lines = (" & ".join(row) + r" \\" for row in (head, *body))
    comments = (f"% {line}" for note in notes for line in visible(note).splitlines())
    top, rule = (r"\toprule", heading), r"\midrule"
    if len(lines) <= LATEX_ROWS:
        name, packages, top_lines = "tabular", "", [*top, rule]
        bottom = [r"\bottomrule"]
    else:
        name, packages = "longtable", "% needs \\usepackage{booktabs,longtable}"
        top_lines = [*top, rule, r"\endhead", r"\bottomrule", r"\endfoot"]
        bottom = []
    begin, end = rf"\begin{{{name}}}{{{form}}}", rf"\end{{{name}}}"
    return "\n".join(filter(None, [packages, begin, *top_lines, *lines, *bottom, end, *comments]))


def visible(text: str) -> str:
    r"""A text whose control characters are written out; line breaks stay.

    >>> print(visible("\x1b[31mred"))
    \x1b[31mred
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def markdown_text(text: str) -> str:
    r"""A text for Markdown, in which names from the data make no tag and no link.

    >>> print(markdown_text("note: <script> has p <0.05; [x](javascript:y)"))
    note: \<script> has p <0.05; [x]\(javascript:y)
    """
    return _PROSE.sub(r"\\\g<0>", visible(text))


def markdown_notes(notes: Iterable[str]) -> str:
    r"""Lines below a table, as Markdown: each a paragraph, which else would run together.

    >>> markdown_notes(["p: by Holm", "note: no label"])
    'p: by Holm\n\nnote: no label'
    """
    return "\n\n".join(map(markdown_text, notes))


def html_text(text: str) -> str:
    """A text for HTML, in which names from the data make no tag."""
    from html import escape  # which imports the names of all characters

    return escape(text)


def _markdown_cell(text: str) -> str:
    return _CELL.sub(r"\\\g<0>", visible(text)).replace("\n", "<br>")


def html_notes(notes: Iterable[str]) -> str:
    """Lines below a table, as HTML."""
    below = "<br>".join(html_text(visible(line)) for line in notes)
    return f"<small>{below}</small>" if below else ""


class _Grid:
    """The cells of a table as aligned text."""

    def __init__(self, table: Table, is_styled: bool) -> None:
        self.names, *self.rows = (
            [visible(cell) for cell in row] for row in (table.columns, *table.rows)
        )
        self.first = table.first_number
        self.styles = (table.styles or {}) if is_styled else {}

    def text(self, width: int | None) -> str:
        """The lines; None is as wide as it is."""
        cells = [self.names, *self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        fits = width is None or sum(widths) + GAP * (len(widths) - 1) <= width
        if fits and not self.styles and all(map(_is_plain, chain.from_iterable(cells))):
            return "\n".join(self._line(row, widths) for row in cells)
        return self._by_rich(width)

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        """A line of plain cells: importing rich for them takes longer than most evaluations."""
        aligned = (
            cell.rjust(width) if i >= self.first else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return (" " * GAP).join(aligned).rstrip()

    def _by_rich(self, width: int | None) -> str:
        """The same with cells of any width, broken and styled."""
        import rich.table
        from rich.console import Console
        from rich.text import Text

        table = rich.table.Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="")
        widths = self._widths(width) if width else {}
        for i, name in enumerate(self.names):
            table.add_column(
                Text(name),
                justify="right" if i >= self.first else "left",
                no_wrap=width is None or i >= self.first,
                overflow="fold",
                width=widths.get(i),
            )
        for number, row in enumerate(self.rows):
            table.add_row(
                *(Text(cell, self.styles.get((number, i), "")) for i, cell in enumerate(row))
            )
        buffer = io.StringIO()
        Console(
            file=buffer,
            width=width or 100_000,
            color_system="standard" if self.styles else None,
            force_terminal=bool(self.styles),
            no_color=False,
            legacy_windows=False,
            force_jupyter=False,  # else a notebook shows it at once, and the text is empty
        ).print(table)
        return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())

    def _widths(self, width: int) -> dict[int, int]:
        """How wide each column is: the widest texts are broken first, words last."""
        cells = dict(enumerate(zip(self.names, *self.rows, strict=True)))
        widths = {i: max(map(_width, texts)) for i, texts in cells.items()}
        texts = range(self.first)
        words = {i: max(map(_width, " ".join(cells[i]).split()), default=1) for i in texts}
        for least in (words, dict.fromkeys(texts, NARROW), dict.fromkeys(texts, 1)):
            while sum(widths.values()) + GAP * (len(widths) - 1) > width:
                widest = max(texts, key=lambda i: widths[i] - least[i], default=None)
                if widest is None or widths[widest] <= least[widest]:
                    break
                widths[widest] -= 1
        return widths


def _is_plain(text: str) -> bool:
    """Whether each character of a text takes one place."""
    return text.isascii() and text.isprintable()


def _width(text: str) -> int:
    """How many places a text takes."""
    if _is_plain(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def terminal_width() -> int | None:
    """How wide a table may be: as the terminal, or as COLUMNS says; None into a file or pipe."""
    if _FOR_FILE.get() or ("COLUMNS" not in os.environ and not sys.stdout.isatty()):
        return None
    return shutil.get_terminal_size().columns


def has_colors() -> bool:
    """Whether stdout is a terminal that shows bold and red, and nobody said NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def metric_value(value: float | None, decimals: int = DECIMALS) -> str:
    """A metric's value for a cell.

    >>> metric_value(0.5), metric_value(None), metric_value(0.5, 2), metric_value(-1e-17)
    ('0.5000', '-', '0.50', '0.0000')
    """
    return "-" if value is None else f"{value:z.{decimals}f}"


def many(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun.

    >>> many(1, "row"), many(1200, "row"), many(2, "stratum", "strata")
    ('1 row', '1,200 rows', '2 strata')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def printable(value: object, width: int | None = None) -> str:
    """A value for a cell: control characters and outer spaces shown, long texts cut."""
    text = "NULL" if value is None else str(value)
    if not text.isprintable() or text != text.strip():
        text = repr(text)
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def probability(p: float, level: float, decimals: int = 4) -> str:
    """A p-value, in more decimals where rounding would take it across 1 - level.

    >>> probability(0.0312, 0.95), probability(1e-9, 0.95), probability(1e-9, 0.95, 3)
    ('0.0312', '<0.0001', '<0.001')
    >>> probability(0.04998, 0.95), probability(0.05, 0.95)
    ('0.04998', '0.0500')
    """
    error, least = round(1 - level, 12), 10.0**-decimals
    if p < least <= error:
        return f"<{least:.{decimals}f}"
    texts = (f"{p:.{places}f}" for places in range(decimals, 17))
    return next((text for text in texts if (float(text) < error) == (p < error)), repr(p))


def value_text(value: object) -> str:
    """The value of a segment to read, whole; `''` where it is the empty text.

    >>> value_text("DE"), value_text(" DE"), value_text("")
    ('DE', "' DE'", "''")
    """
    return printable(value) or repr(value)


LONGEST_VALUE = 60
"""Longer values of segments are cut in tables for people; a hash at their end tells them apart."""


def segment_cell(name: str, value: str) -> str:
    """A segment and its value for a cell, cut where it is long; `all` for all queries.

    >>> segment_cell("country", "DE"), segment_cell("country", ""), segment_cell("all", "all")
    ('country=DE', "country=''", 'all')
    >>> segment_cell("page", "https://shop.example.com/" + 100 * "x")
    'page=https://shop.example.com/xxxxxxxxxxxxxxxxxxxxxxxxxxxx…16488f'
    """
    text = value_text(value)
    if len(text) > LONGEST_VALUE:
        hashed = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:6]
        text = f"{text[: LONGEST_VALUE - 7]}…{hashed}"
    return "all" if name == "all" else f"{printable(name)}={text}"


MOST_COLUMNS = 80
"""Lines of texts are no longer, however wide the terminal is: longer ones are hard to read."""


def line_width() -> int:
    """How long a line of text may be."""
    return min(MOST_COLUMNS, terminal_width() or MOST_COLUMNS)


def folded(text: str, indent: str = "    ", *, first: str = "") -> str:
    """A text on lines that fit, in which a number stays with its unit.

    Args:
        text: The text.
        indent: What lines after the first begin with.
        first: What the first line begins with.

    >>> print(folded(f"{'recall rose ' * 6}by 400.0 % of it", "  "))
    recall rose recall rose recall rose recall rose recall rose recall rose by
      400.0 % of it
    """
    together = text.replace(" %", "\0%")
    lines = wrap(together, line_width(), initial_indent=first, subsequent_indent=indent)
    return "\n".join(lines).replace("\0", " ")


def wrapped(texts: Iterable[str], *, break_on_hyphens: bool = True) -> str:
    """Texts in lines as wide as the terminal, or 100 where none says how wide it is."""
    width = terminal_width() or 100
    lines = (wrap(text, width, break_on_hyphens=break_on_hyphens) for text in texts)
    return "\n".join(chain.from_iterable(lines))

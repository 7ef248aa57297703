"""The result of a leaderboard, and how people read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import sqlmetrics
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.comparison.leaderboard.orders import (
    DISCRIMINATION_KINDS,
    LABEL_KINDS,
    METRIC_KINDS,
    TUKEY,
    Orders,
    PairTests,
    Test,
)
from sqlmetrics.comparison.leaderboard.scores import (
    CONTRIBUTION_KINDS,
    ITEM_KINDS,
    TOPIC_KINDS,
    VARIANCE_KINDS,
    Contributions,
)
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.table import (
    Table,
    html_notes,
    latex_table,
    latex_text,
    many,
    metric_value,
    printable,
    wrapped,
)
from sqlmetrics.tables.tabular import ArrowTables, Block, Kinds, Row, Tabular, arrow_tables

KINDS = {
    **dict.fromkeys(("metric", "system"), "string"),
    **dict.fromkeys(("rank", "rank_low", "rank_high"), "int64"),
    "value": "double",
    "group": "string",
    **dict.fromkeys(("n_better", "n_worse"), "int64"),
    "reference": "string",
    **dict.fromkeys(("difference", "p_value", "p_adjusted"), "double"),
    "verdict": "string",
    "n_topics": "int64",
    "unjudged": "double",
}
"""Column -> its type."""

PAIR_KINDS = {
    **dict.fromkeys(("metric", "system", "other_system"), "string"),
    **dict.fromkeys(("difference", "p_value", "p_adjusted"), "double"),
}

REFERENCES = {
    "baseline": "+ better, - worse than {baseline}",
    "best": "- worse than the best",
    "team": "- worse than the best of its team",
}
"""What marks compare with -> what they mean."""

MARKS = {"better": "+", "worse": "-"}
"""Verdict -> the mark behind a value."""

TEST_NAMES = {
    TUKEY: "Tukey's HSD test over all pairs of systems (two-way analysis of variance by system and "
    "topic)",
    "t": "paired t-tests of all pairs of systems",
    "wilcoxon": "Wilcoxon signed-rank tests of all pairs of systems",
    "randomization": "randomization tests of all pairs of systems",
}

CORRECTION_NAMES = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "bh": "Benjamini and Hochberg's correction",
    "none": "no correction",
}

_SORT = """<script>
for (const head of document.currentScript.previousElementSibling.querySelectorAll("thead th")) {
  head.style.cursor = "pointer";
  head.onclick = () => {
    const body = head.closest("table").tBodies[0], i = head.cellIndex;
    const text = row => row.cells[i].textContent;
    const down = head.dataset.down = -(head.dataset.down || -1);
    body.append(...[...body.rows].sort((a, b) => {
      const x = parseFloat(text(a)), y = parseFloat(text(b));
      return -down * (isNaN(x) || isNaN(y) ? text(b).localeCompare(text(a)) : x - y);
    }));
  };
}
</script>"""


@dataclass(frozen=True)
class Methods:
    """How the numbers came about.

    Attributes:
        spec: What was evaluated, with its preset and options.
        test: What tells two systems apart.
        n_topics: How many topics there are.
        n_systems: How many systems.
        tests: Metric -> what the test says.
    """

    spec: Spec
    test: Test
    n_topics: int
    n_systems: int
    tests: Mapping[str, PairTests]

    def paragraph(self, headings: Sequence[str]) -> str:
        """What a paper says of them."""
        options = self.spec.options
        ties, missing = (
            OPTIONS[name].choice(options[name]).meaning for name in ("ties", "missing")
        )
        subject = f"{many(self.n_systems, 'system')} on {many(self.n_topics, 'topic')}"
        text = (
            f"We evaluated {subject} with sqlmetrics {sqlmetrics.__version__} by "
            f"{', '.join(headings)} (conventions: {self.spec.preset}). Items with equal scores: "
            f"{ties}. A topic without a ranking {missing}."
        )
        if not any(pair_test.has_any for pair_test in self.tests.values()):
            return text
        test = self.test
        correction = ""
        if test.name != TUKEY:
            within = "" if test.correction == "none" else " within each metric"
            correction = f" with {CORRECTION_NAMES[test.correction]}{within}"
        return (
            f"{text} Differences were tested by {TEST_NAMES[test.name]}{correction}, at the "
            f"{self.error} level; systems that share a letter do not differ. Rank intervals are "
            f"{100 * test.level:g} % percentiles over {test.replicates:,} bootstrap samples of the "
            f"topics (seed {test.seed})."
        )

    @property
    def error(self) -> str:
        """The level of the tests, for people."""
        return f"{100 * (1 - self.test.level):.3g} %"


@dataclass(frozen=True, repr=False)
class Leaderboard(Tabular):
    """Systems in order of a metric; it prints as a table, also in a notebook.

    Iterate over it for its rows: one per metric and system.

    Attributes:
        rows: One row per metric and system, best first; see `to_arrow` for their keys.
        pairs: One row per metric and pair of systems, with the difference and p-values.
        topics: One row per metric and topic, hardest first: mean, spread and ends over systems.
        variances: One row per metric: variance by system and topic, and the topics that it takes.
        orders: The orders by each metric, for `metrics`, `labels` and `discrimination`.
        contributions: What teams contributed to the pool alone, and their systems without.
        headings: Metric -> what it was called by who asked for it.
        sort_by: The metric that orders the table.
        marks: What marks compare with, one of REFERENCES; None if there are none.
        baseline: The system that the others are compared with; None for the best of each metric.
        methods: How the numbers came about.
        notes: Sentences that a reader should know.
        executed_sql: The statements that ran.
    """

    rows: tuple[Row, ...]
    pairs: tuple[Row, ...]
    topics: tuple[Row, ...]
    variances: tuple[Row, ...]
    orders: Orders
    contributions: Contributions
    headings: Mapping[str, str]
    sort_by: str
    marks: str | None
    baseline: str | None
    methods: Methods
    notes: tuple[str, ...]
    executed_sql: str

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "rows": KINDS,
        "pairs": PAIR_KINDS,
        "topics": TOPIC_KINDS,
        "variances": VARIANCE_KINDS,
        "metrics": METRIC_KINDS,
        "labels": LABEL_KINDS,
        "discrimination": DISCRIMINATION_KINDS,
        "contributions": CONTRIBUTION_KINDS,
        "contributed_items": ITEM_KINDS,
    }

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[Row]:
        """The rows as a list of dicts."""
        return [{name: row.get(name) for name in KINDS} for row in self.rows]

    def _arrow_tables(self) -> ArrowTables:
        orders = self.orders
        late_rows = [orders.metric_rows(), orders.label_rows(), orders.discrimination_rows()]
        pooled = [self.contributions.rows, self.contributions.items]
        rows = [self.rows, self.pairs, self.topics, self.variances, *late_rows, *pooled]
        return arrow_tables(rows, self._schemas)

    def methods_text(self) -> str:
        """A paragraph for a paper: metrics, conventions, tests, the number of topics."""
        return self.methods.paragraph([*self.headings.values()])

    @property
    def _order(self) -> list[str]:
        """The systems as the rows of the table."""
        return [row["system"] for row in self.rows if row["metric"] == self.sort_by]

    @property
    def _shows_unjudged(self) -> list[str]:
        """The metrics that have a column of the share without labels, the first of each cutoff."""
        shares: dict[tuple[float | None, ...], str] = {}
        for metric in self.headings:
            rows = {row["system"]: row["unjudged"] for row in self.rows if row["metric"] == metric}
            shares.setdefault(tuple(rows[name] for name in self._order), metric)
        return [metric for values, metric in shares.items() if any(values)]

    def _columns(self) -> dict[str, list[Cell]]:
        """Heading -> the cells below it."""
        rows = {(row["metric"], row["system"]): row for row in self.rows}
        sorted_rows = [rows[self.sort_by, name] for name in self._order]
        columns = {
            "system": [_cell(printable(name)) for name in self._order],
            "rank": [
                _cell("-" if row["rank"] is None else str(row["rank"])) for row in sorted_rows
            ],
        }
        if sorted_rows and sorted_rows[0]["rank_low"] is not None:
            heading = f"rank {100 * self.methods.test.level:g} %"
            columns[heading] = [_cell(_ends(row)) for row in sorted_rows]
        for metric, heading in self.headings.items():
            metric_rows = [rows[metric, name] for name in self._order]
            columns[heading] = _value_cells(metric_rows, has_marks=bool(self.marks))
            if metric in self._shows_unjudged:
                shares = [row["unjudged"] for row in metric_rows]
                columns[f"unjudged {heading}"] = [
                    _cell("-" if share is None else f"{100 * share:.1f} %") for share in shares
                ]
        return columns

    def _notes(self) -> list[str]:
        """The lines below the table."""
        heading = self.headings[self.sort_by]
        lines = [f"sorted by {heading}"]
        if any(row.get("group") for row in self.rows):
            test = self.methods.test
            words = "Tukey's HSD" if test.name == TUKEY else f"{test.name}, {test.correction}"
            lines.append(
                f"systems that share a letter do not differ ({words}, {self.methods.error} level)"
            )
        if self.marks:
            lines.append(REFERENCES[self.marks].format(baseline=printable(self.baseline or "")))
        return ["; ".join(lines), *(f"note: {note}" for note in self.notes)]

    def table(self) -> Table:
        """The table, with notes below it."""
        columns = self._columns()
        rows = [*zip(*columns.values(), strict=True)]
        bold = {
            (i, j): "bold"
            for i, row in enumerate(rows)
            for j, cell in enumerate(row)
            if cell.is_best
        }
        cells = [[cell.text for cell in row] for row in rows]
        return Table([*columns], cells, n_labels=1, notes=self._notes(), styles=bold)

    def table_of(self, name: str) -> Table:
        """One of the tables of `table_names` as it is, for people.

        Raises:
            SpecError: If there is none of this name.
        """
        rows = self.to_arrow(name)
        texts = [
            [_plain_text(row[column]) for column in rows.column_names] for row in rows.to_pylist()
        ]
        n_labels = sum(kind == "string" for kind in [*self._schemas[name].values()][:2])
        return Table(rows.column_names, texts, n_labels=n_labels)

    def save_plot(self, name: str, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a picture of one table: .svg, .png, or .json for its Vega-Lite specification.

        It is of the metric that orders the rows.

        Args:
            name: `rows` (ranks with their intervals), `topics` or `contributions`.
            path: The file.
            overwrite: Whether to replace a file that is no such picture, too.

        Raises:
            SpecError: If there is no such picture, a file is in the way, or the extra `report` is
                not installed.
        """
        from sqlmetrics.comparison.leaderboard.pictures import picture
        from sqlmetrics.comparison.page.content import Words
        from sqlmetrics.comparison.page.report import save

        interval = f"{100 * self.methods.test.level:g} %"
        tables = {"topics": self.topics, "contributions": self.contributions.rows}
        rows = [row for row in tables.get(name, self.rows) if row["metric"] == self.sort_by]
        chart = picture(name, rows, self.headings[self.sort_by], interval)
        file = Path(path)
        save(file, chart.as_file(file.suffix.casefold(), Words()), overwrite=overwrite)
        return file

    def _blocks(self) -> Iterator[Block]:
        yield replace(self.table(), notes=())
        yield wrapped(self._notes())

    def sortable_html(self) -> str:
        """A table for a page, with a script: a click on a heading sorts by it."""
        table = self.table()
        return replace(table, notes=()).html() + _SORT + html_notes(table.notes)

    def latex(self, *, siunitx: bool = False) -> str:
        """A table for a paper by booktabs, groups as superscripts; a long one breaks pages.

        Args:
            siunitx: Whether values stand in columns of siunitx, which align their points.
        """
        columns = self._columns()
        body = [
            [cell.aligned if siunitx else cell.latex for cell in row]
            for row in zip(*columns.values(), strict=True)
        ]
        forms = [_form(cells, siunitx=siunitx) for cells in columns.values()]
        headings = [
            f"{{{latex_text(name)}}}" if form.startswith("S") else latex_text(name)
            for name, form in zip(columns, forms, strict=True)
        ]
        packages = "booktabs,siunitx" if siunitx else "booktabs"
        notes = [rf"needs \usepackage{{{packages}}}", *self._notes(), self.methods_text()]
        return latex_table("l" + "".join(forms[1:]), headings, body, notes)


@dataclass(frozen=True)
class Cell:
    """A cell of the table.

    Attributes:
        text: For a terminal.
        latex: For a paper.
        aligned: The same in a column of siunitx.
        is_value: Whether it is the value of a metric.
        is_best: Whether no system has a better one.
    """

    text: str
    latex: str
    aligned: str
    is_value: bool = False
    is_best: bool = False


def _plain_text(value: object) -> str:
    if value is None or isinstance(value, float):
        return metric_value(value)
    return printable(value)


def _cell(text: str) -> Cell:
    return Cell(text, latex_text(text), latex_text(text))


def _form(cells: Sequence[Cell], *, siunitx: bool) -> str:
    """The alignment of a column in LaTeX."""
    if not cells[0].is_value:
        return "r"
    if not siunitx:
        return "l"
    parts = [cell.text.split()[0].partition(".") for cell in cells if "{" not in cell.aligned[:1]]
    sign = "-" if any(integer_part.startswith("-") for integer_part, _, _ in parts) else ""
    integer_part = max((len(integer_part.lstrip("-")) for integer_part, _, _ in parts), default=1)
    decimals = max((len(decimals) for _, _, decimals in parts), default=0)
    ends = max((cell.text.partition(" ")[2].strip() for cell in cells), key=len)
    space = rf",table-space-text-post={{\textsuperscript{{{ends}}}}}" if ends else ""
    return f"S[table-format={sign}{integer_part}.{decimals},detect-weight{space}]"


def _ends(row: Row) -> str:
    low, high = row["rank_low"], row["rank_high"]
    return str(low) if low == high else f"{low}-{high}"


_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _value_cells(rows: Sequence[Row], *, has_marks: bool) -> list[Cell]:
    """Values with their letters, which are as wide as the widest, so that numbers align."""
    letters = [letter_ranges(row.get("group") or "") for row in rows]
    marks = [MARKS.get(row.get("verdict") or "", "") if has_marks else "" for row in rows]
    ends = [f"{group}{mark}" for group, mark in zip(letters, marks, strict=True)]
    width = max(map(len, ends), default=0)
    cells = []
    for row, end in zip(rows, ends, strict=True):
        value, is_best = metric_value(row["value"]), row.get("rank") == 1 and len(rows) > 1
        number = rf"\textbf{{{value}}}" if is_best else value
        above = rf"\textsuperscript{{{end}}}" if end else ""
        aligned = rf"\bfseries {value}" if is_best else value
        aligned = (
            f"{aligned}{f'{{{above}}}' if above else ''}"
            if _NUMBER.fullmatch(value)
            else f"{{{number + above}}}"
        )
        text = f"{value} {end.ljust(width)}" if width else value
        cells.append(Cell(text, number + above, aligned, is_value=True, is_best=is_best))
    return cells


def letter_ranges(group: str) -> str:
    """Letters of a group, with three or more in a row as a range.

    >>> letter_ranges("abdefg"), letter_ranges("yz(27)(28)")
    ('abd-g', 'y-(28)')
    >>> letter_ranges("ac")
    'ac'
    """
    letters = re.findall(r"[a-z]|\(\d+\)", group)
    numbers = [int(x[1:-1]) - 1 if x[0] == "(" else ord(x) - ord("a") for x in letters]
    text, start = "", 0
    for i in range(1, len(letters) + 1):
        if i < len(letters) and numbers[i] == numbers[i - 1] + 1:
            continue
        run = letters[start:i]
        text += "".join(run) if len(run) < 3 else f"{run[0]}-{run[-1]}"
        start = i
    return text

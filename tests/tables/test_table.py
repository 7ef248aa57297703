"""A table in its four forms, read back by what reads them: no text of the data is markup."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from sqlmetrics.tables.table import Table, visible

HOSTILE = (
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "[y]\\(javascript:alert(2))",
    "![z](http://example.com/z.png)",
    "&lt;script&gt; &#106;",
    "\\<b>",
    "a`b`",
    "c|d",
    "\\|e",
    "f\\",
    "*bold* **bolder** _thin_ __x__ ~~gone~~",
    "snake_case_id & 50 % of $1 {#2} ^3 ~",
    "\x1b[31mred\x1b[0m",
    "\u202etxt.exe",
    "\x00\t\x7f",
)
TABLE = Table(["item", "n"], [[text, "1"] for text in HOSTILE], 1, HOSTILE[0], (HOSTILE[1],))


def test_markdown_shows_the_very_texts() -> None:
    """A parser of CommonMark with GitHub's tables finds nothing but texts and line breaks."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = parser.parse(TABLE.markdown())
    inlines = [token for token in tokens if token.type == "inline"]
    types = {child.type for token in inlines[1:] for child in token.children or ()}
    assert types <= {"text", "text_special"}
    texts = ["".join(child.content for child in token.children or ()) for token in inlines]
    cells = [text for name in HOSTILE for text in (visible(name), "1")]
    assert texts == [HOSTILE[0], "item", "n", *cells, HOSTILE[1]]
    several_lines = Table(["item"], [["two\nlines"]]).markdown()
    assert len(several_lines.splitlines()) == 3, "a line break ends no row"


class _Cells(HTMLParser):
    """The tags of a page, and the texts between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_shows_the_very_texts() -> None:
    styled = replace(TABLE, styles={(0, 1): "bold", (1, 1): "red"}, shares={(0, 1): 0.25})
    page = _Cells(styled.html())
    assert page.tags == {*["table", "caption", "thead", "tr", "th", "tbody", "td", "b", "small"]}
    cells = [text for name in HOSTILE for text in (visible(name), "1")]
    assert page.texts == [HOSTILE[0], "item", "n", *cells, HOSTILE[1]]
    assert re.search(r'25.0%, transparent 25.0%\)"><b>1</b>', styled.html())
    assert styled.html().count("<b>") == 1, "red is of terminals alone"


def test_latex_takes_no_character_for_its_own() -> None:
    lines = TABLE.latex().splitlines()
    assert lines[:3] == [r"\begin{tabular}{lr}", r"\toprule", r"item & n \\"]
    assert lines[-1] == f"% {HOSTILE[1]}"
    for line in lines[4 : 4 + len(HOSTILE)]:
        commands = re.sub(r"\\text\w+\{\}|\\[&%$#_{}]", "", line)
        assert re.fullmatch(r"[^\\%$#_{}~^<>&]* & 1 \\\\", commands), line
    below = replace(TABLE, notes=("first\n\\input{second}",)).latex()
    assert below.endswith("% first\n% \\input{second}"), "each line of a note is a comment"


def test_text_steers_no_terminal() -> None:
    text = TABLE.text(full_width=True)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert "\\x1b[31mred" in text


def test_the_text_of_a_table_is_no_display_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich shows a table by itself where it sees Jupyter, and leaves nothing to print."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    text = Table(["名", "value"], [["搜索", "0.5000 ±0.1"]], 1).text()
    assert "0.5000" in text


def test_numbers_stand_in_several_tables_where_the_terminal_is_narrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "16")
    rows = [["a long name", "1.0000", "2.0000"], ["b", "3.0000", "4.0000"]]
    table = Table(["system", "mrr", "ap"], rows, 1, styles={(1, 2): "bold"})
    assert [part.columns for part in table.split(16)] == [["system", "mrr"], ["system", "ap"]]
    assert max(map(len, table.text().splitlines())) <= 16
    assert "\x1b[1m4.0000" in table.text(styled=True)
    assert "2.0000" in table.text(full_width=True).splitlines()[1]


def test_a_terminal_shows_the_first_rows_of_a_long_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(["system", "mrr"], [[f"s{n}", "1.0000"] for n in range(1_500)], 1, notes=["so"])
    assert len(table.text().splitlines()) == 1_503
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    *lines, empty, hint, note = table.text().splitlines()
    assert (len(lines), lines[-1].split()[0], empty, note) == (501, "s499", "", "so")
    assert hint == "1,000 more rows: files, pipes and to_dicts() have all"
    assert len(table.text(full_width=True).splitlines()) == 1_503
    monkeypatch.setenv("COLUMNS", "80")
    systems = [f"system {n:03}" for n in range(400)]
    table = Table(["metric", *systems], [[f"ndcg@{k}", *["1.0000"] * 400] for k in range(1, 51)], 1)
    *lines, empty, hint = table.text().splitlines()
    assert (len(lines), empty) == (10 * 51 + 9, "")
    assert hint == "340 more columns: files, pipes and to_dicts() have all"
    assert "system 059" in lines[-51]
    assert table.html().count("<th>") == 401

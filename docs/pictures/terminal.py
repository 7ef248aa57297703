"""Pictures of a terminal: this script runs the demo and draws what it says."""

from __future__ import annotations

import html
import io
import re
import tempfile
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from sqlmetrics.cli import cli

HERE = Path(__file__).resolve().parent
GREY, RED, GREEN = (110, 118, 129), (200, 40, 41), (26, 127, 55)
LIGHT_RED, LIGHT_GREEN = (255, 123, 114), (86, 211, 100)
THEMES = {
    "light": TerminalTheme((246, 248, 250), (36, 41, 47), [GREY, RED, GREEN, *[GREY] * 5]),
    "dark": TerminalTheme(
        (22, 27, 34), (220, 223, 228), [GREY, LIGHT_RED, LIGHT_GREEN, *[GREY] * 5]
    ),
}
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Without fonts from the web, which a page on GitHub would not load."""


def shown(said: str) -> list[str]:
    """The lines of the demo that a picture has: those before the click log."""
    of_search = said.partition("\nA click log without judgments")[0]
    return ["$ sqlmetrics demo", *of_search.strip().splitlines(), ""]


def drawn(lines: list[str], theme: TerminalTheme) -> str:
    """An SVG of a terminal."""
    console = Console(record=True, width=80, file=io.StringIO(), color_system="truecolor")
    for line in lines:
        text = Text(line)
        if line.startswith("$"):
            text.stylize("bold")
        text.highlight_regex(r"^Yes.*queries\.| \+0\.\d{4}", "green")
        text.highlight_regex(r"But not.*$| -0\.\d{4}", "red")
        text.highlight_regex(r"^(Yes|Checked)\b", "bold")
        text.highlight_regex(r"^metric .*|^ndcg@10 +baseline.*", "bold")
        console.print(text, soft_wrap=True)
    form = FORMAT.replace("Fira Code, monospace", FONTS)
    picture = console.export_svg(title="", theme=theme, code_format=form, unique_id="terminal")
    return RUN.sub(_words, picture)


RUN = re.compile(
    r'<text class="(?P<style>[\w-]+)" x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)" '
    r'textLength="(?P<width>[\d.]+)" (?P<clip>clip-path="[^"]+")>(?P<text>[^<]*)</text>'
)
"""A run of letters as Rich draws it."""


def _words(run: re.Match[str]) -> str:
    """A run as its words, each at its own column: what ignores `textLength` moves no number."""
    text = html.unescape(run["text"]).replace("\u00a0", " ").rstrip("\n")
    if not text.strip():
        return run[0]
    letter = float(run["width"]) / len(text)
    return "".join(
        f'<text class="{run["style"]}" x="{float(run["x"]) + word.start() * letter:.4g}"'
        f' y="{run["y"]}" textLength="{len(word[0]) * letter:.4g}" {run["clip"]}>'
        f"{html.escape(word[0])}</text>"
        for word in re.finditer(r"\S+", text)
    )


def write(said: str) -> None:
    """Write both pictures of what the demo said."""
    for name, theme in THEMES.items():
        (HERE / f"demo-{name}.svg").write_text(drawn(shown(said), theme), encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write(CliRunner().invoke(cli, ["demo"]).stdout)

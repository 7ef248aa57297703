"""The tutorial, the how-to and concept pages do what they say, from nothing; the site has all."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import messages
import pytest
import yaml
from documentation import ROOT, SELF_CONTAINED
from glossary import COLUMNS, GLOSSARY
from marked import by_turns, sliced
from walked import FENCE, page_as_run

from sqlmetrics.cli import COMMANDS, cli
from sqlmetrics.cli.options import COMMON, options_by_heading

DOCS = ROOT / "docs"


LONGER = ("click-models", "interleaving", "position-bias")
"""Pages likewise, whose logs take their time."""


NEEDS = {
    "boosters": ("lightgbm", "xgboost", "sklearn"),
    "coming-from-ranx": ("ranx",),
    "coming-from-trec-eval": ("pytrec_eval",),
    "coming-from-ir-measures": ("ir_measures", "pytrec_eval"),
    "coming-from-recbole": ("recbole.evaluator.metrics",),
}
"""Page -> the libraries that its blocks import, where not every machine has them."""


@pytest.mark.filterwarnings("ignore:unsafe cast from uint64 to int64")  # numba's, of ranx
@pytest.mark.parametrize(
    "page",
    [
        *sliced("page", 0.25, SELF_CONTAINED, lambda page: page.stem),
        *(pytest.param(DOCS / f"{name}.md", marks=by_turns(8)) for name in LONGER),
    ],
    ids=lambda page: page.stem,
)
def test_a_page_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    for library in NEEDS.get(page.stem, ()):
        pytest.importorskip(library)
    text = page.read_text(encoding="utf-8")
    now = page_as_run(text, tmp_path)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        page.write_text(now, encoding="utf-8")
    else:
        assert text == now


def test_blocks_that_are_not_run_can_be_read() -> None:
    """Of other programs: their grammar at least."""
    for page in SELF_CONTAINED:
        for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
            if language == "yaml":
                yaml.safe_load(body)
            if language == "py":
                compile(body, page.name, "exec")


def test_every_page_has_a_place_on_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"[\w./-]+\.md", site.partition("\nnav:")[2])
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


# -- the page of commands ---------------------------------------------------------------

SHARED = ("Columns", "Connection", "General")
"""Headings whose options are the same on all commands: they stand once on the page."""

HEAD = """\
# Commands

<!-- UPDATE_GOLDEN=1 pytest tests/test_docs_pages.py writes this page anew -->
`--help` behind a command prints the same. Results go to stdout; messages and progress go to
stderr.

| exit code | meaning |
|---|---|
| 0 | all is well |
| 1 | a check failed, or a number differs |
| 2 | the spec, the usage or the data is wrong: trying again does not help |
| 3 | the database or the disk failed: a server, a lock, a file that cannot be written |
| 4 | there is no data yet: a table has no rows, or none of these days; try again later |
| 130, 143 | Ctrl-C or SIGTERM stopped it; the running statement is cancelled |

## Options of many commands

"""


def options_table(options_by_heading: Mapping[str, Sequence[click.Option]]) -> str:
    """Options as rows of a table, under their headings."""
    rows = []
    for heading, options in options_by_heading.items():
        rows += [f"| **{heading}** | |"] * (heading != COMMON and len(options_by_heading) > 1)
        rows += map(option_row, options)
    return "\n".join(["| option | meaning |", "| --- | --- |", *rows])


def option_row(option: click.Option) -> str:
    """An option of a command, as a row of a table."""
    record = option.get_help_record(click.Context(click.Command("")))
    assert record is not None
    name, text = (" ".join(cell.split()).replace("|", "\\|") for cell in record)
    return f"| `{name}` | {text[:1].upper()}{text[1:]} |"


def context_of(command: click.Command) -> click.Context:
    """A context with the spellings of `--help`."""
    return click.Context(command, help_option_names=["-h", "--help"])


def shared_options() -> dict[str, list[click.Option]]:
    """The options of each of SHARED, of the command that has most of them."""
    groups = [options_by_heading(command, context_of(command)) for command in cli.commands.values()]
    return {
        heading: max((group.get(heading, []) for group in groups), key=len) for heading in SHARED
    }


def section(command: click.Command, shared: Mapping[str, Sequence[click.Option]]) -> str:
    """What a command is for, its examples and its options."""
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    context = context_of(command)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"### {command.name}", f"`sqlmetrics {command.name} {usage}`", text.strip()]
    parts += [f"```text\n{examples.strip()}\n```"] if examples else []
    for title, lines in getattr(command, "sections", {}).items():
        rows = [f"| `{name}` | {meaning} |" for name, meaning in lines.items()]
        parts.append("\n".join([f"| {title.lower()} | |", "| --- | --- |", *rows]))
    links, other_options = [], {}
    for heading, members in options_by_heading(command, context).items():
        if [*map(option_row, members)] == [*map(option_row, shared.get(heading, []))]:
            links.append(f"[{heading.lower()}](#{heading.lower()})")
        else:
            other_options[heading] = members
    parts += [options_table(other_options)] if other_options else []
    return "\n\n".join([*parts, f"Also the options under {', '.join(links)}."])


def test_the_page_of_commands_is_current() -> None:
    shared = shared_options()
    sections = [
        "\n\n".join([f"## {title}", *(section(cli.commands[name], shared) for name in commands)])
        for title, commands in COMMANDS.items()
    ]
    tables = [f"### {heading}\n\n{options_table({heading: shared[heading]})}" for heading in SHARED]
    fresh = HEAD + "\n\n".join([*tables, *sections]) + "\n"
    path = DOCS / "commands.md"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(fresh, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == fresh


# -- the glossary, and the page of messages ---------------------------------------------

GLOSSARY_HEAD = """\
# Glossary

<!-- UPDATE_GOLDEN=1 pytest tests/test_docs_pages.py writes this page anew -->
One term for one thing: the messages, the tables and these pages use these words.
"""
MESSAGES_HEAD = """\
# Messages

<!-- UPDATE_GOLDEN=1 pytest tests/test_docs_pages.py writes this page anew -->
The errors, notes and warnings of sqlmetrics, by the part that tells them; a name in braces stands
for what is filled in. The [glossary](glossary.md) says what the terms mean, and
[the exit codes](commands.md) what a script can rely on.
"""


def is_current(name: str, fresh: str) -> bool:
    """Whether a page of the docs is what is generated; with UPDATE_GOLDEN it is written first."""
    path = DOCS / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(fresh, encoding="utf-8")
    return path.read_text(encoding="utf-8") == fresh


def terms_table(terms: Mapping[str, str]) -> str:
    """Terms and their meanings as a table of Markdown."""
    lines = [f"| {term} | {meaning} |" for term, meaning in sorted(terms.items())]
    return "\n".join(["| term | meaning |", "|---|---|", *lines])


def test_the_page_of_messages_is_current() -> None:
    assert is_current("messages.md", messages.page(MESSAGES_HEAD))


def test_the_glossary_is_current_and_has_each_head_of_a_table() -> None:
    columns = f"## Columns of printed tables\n\n{terms_table(COLUMNS)}\n"
    assert is_current(
        "glossary.md", "\n".join([GLOSSARY_HEAD, f"{terms_table(GLOSSARY)}\n", columns])
    )
    heads = {name: files for name, files in messages.heads().items() if "page." not in name}
    unknown_heads = {name: heads[name] for name in heads.keys() - GLOSSARY.keys() - COLUMNS.keys()}
    assert not unknown_heads, "a head of a table is a term of tests/glossary.py"
    assert not GLOSSARY.keys() & COLUMNS.keys()
    wrong = [text for text in (GLOSSARY | COLUMNS).values() if not text.endswith(".")]
    assert not wrong, "a meaning is a sentence"

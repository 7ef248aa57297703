"""`sqlmetrics list`, `explain`, `init` and `demo`: find a way in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from textwrap import wrap

import click

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import Metric, listed
from sqlmetrics.catalog.online import ONLINE, OnlineMetric
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, progress_bar
from sqlmetrics.cli.options import OUTPUT, Command, format_option, metrics_from_option, option
from sqlmetrics.engines.output_files import refuse_input, replaced, writing
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.exports.formats import FORMATS
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.template import templates_folder
from sqlmetrics.tables.table import Table

LISTS = ("metrics", "online", "presets", "options", "dialects", "exports")


@click.command(cls=Command)
@click.argument("what", type=click.Choice(LISTS))
@format_option(("table", "json"))
@error_options
def list_command(what: str, output: str) -> None:
    """List metrics, online metrics, presets, options, dialects or exports."""
    import json

    from sqlmetrics.tables.table import terminal_width

    if output == "json":
        rows = [
            {name.replace(" ", "_"): value for name, value in record.items()}
            for record in records(what)
        ]
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    click.echo(_fitted(table(what), terminal_width()))


def _fitted(table: Table, width: int | None) -> str:
    """A table of words that is no wider than asked for.

    Where its columns do not fit side by side, the first one stays and the others become one
    text behind it, each cell with its heading.
    """
    if width is None or table.fits(width):
        return table.text(full_width=True)
    first = min(max(len(row[0]) for row in table.rows), width // 3)
    lines = []
    for name, title, *cells in table.rows:
        headed_cells = zip(table.columns[2:], cells, strict=True)
        details = "; ".join([title, *(f"{head}: {cell}" for head, cell in headed_cells if cell)])
        room = max(20, width - first - 2)
        detail_lines = wrap(details, room, break_on_hyphens=False) or [""]
        is_long = len(name) > first
        lines += [name] if is_long else []
        first_cells = ["" if is_long else name, *[""] * (len(detail_lines) - 1)]
        lines += [
            f"{cell:{first}}  {line}".rstrip()
            for cell, line in zip(first_cells, detail_lines, strict=True)
        ]
    return "\n".join(lines)


@click.command(cls=Command)
@click.argument("name", metavar="METRIC|OPTION|PRESET", shell_complete=completion.explained)
@option(
    "--preset",
    metavar="NAME",
    shell_complete=completion.presets,
    help="Conventions of a tool, such as trec_eval (see list presets).",
)
@metrics_from_option
@error_options
def explain_command(name: str, preset: str | None, metrics_from: tuple[str, ...]) -> None:
    """Explain a metric, option or preset: formula, choices, SQL, a worked example.

    \b
    sqlmetrics explain ndcg@10
    sqlmetrics explain "recall(rel=2)@50" --preset trec_eval
    sqlmetrics explain ties
    sqlmetrics explain xgboost
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.api import explain

    click.echo(explain(name, preset, metrics_from))


@click.command(cls=Command)
@click.argument("file", default="sqlmetrics.yml")
@overwrite_option
@option("--force", is_flag=True, hidden=True, help="The same as --overwrite.")
@option("--clicks", is_flag=True, help="Write the spec of a click log.")
@option("--schema", is_flag=True, help="Print only the JSON schema of specs.", heading=OUTPUT)
@error_options
def init_command(file: str, force: bool, clicks: bool, schema: bool) -> None:
    """Write an example spec to FILE, with every key explained."""
    if schema:
        click.echo(schema_text(), nl=False)
        return
    click.echo(write(Path(file), overwrite=force or overwrites(), clicks=clicks))


@click.command(cls=Command)
@option(
    "--out", default="sqlmetrics_demo", show_default=True, metavar="FOLDER", help="Folder to write."
)
@overwrite_option
@error_options
def demo_command(out: str) -> None:
    """Create a search log, evaluate two rankers on it, and print what to try next."""
    from sqlmetrics.cli.demo import show

    messages: list[str] = []
    with progress_bar("making and evaluating a search log"):
        show(Path(out), messages.append, overwrite=overwrites())
    click.echo("\n".join(messages))


# A spec to start from: the example with every key explained, and the schema for editors.

SCHEMA = "sqlmetrics.schema.json"
"""The schema's name beside a spec: the example's first line names it."""


def example(name: str = "example") -> str:
    """The text of an example spec: `example`, or `clicks` for a click log."""
    return (templates_folder() / "cli" / f"{name}.yml").read_text(encoding="utf-8")


def schema_text() -> str:
    """The JSON schema of spec files, as text."""
    return (Path(__file__).parent.parent / "spec" / "spec.schema.json").read_text(encoding="utf-8")


def write(path: Path, *, overwrite: bool = False, clicks: bool = False) -> str:
    """Write the example spec, and the schema beside it; say what was made and what is next.

    Args:
        path: Where the spec goes; its folder must be there.
        overwrite: Whether to replace files that are there. A schema that is there is
            otherwise left as it is, a spec that is there is an error.
        clicks: Whether it is of a click log.

    Raises:
        SpecError: If the spec is there already, or cannot be written.
    """
    if path.is_dir():
        raise SpecError(
            f"{str(path)!r} is a folder; give the name of a file, like {path / 'sqlmetrics.yml'}"
        )
    schema_file = path.parent / SCHEMA
    has_schema = schema_file.exists() and not overwrite
    write_new(path, example("clicks" if clicks else "example"), overwrite=overwrite)
    if not has_schema:
        _write(schema_file, schema_text())
    return _next_steps(path, schema_file, has_schema)


def write_new(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a file that is not there yet.

    Raises:
        SpecError: If it is there already and may not be replaced, or cannot be written.
    """
    refuse_input(path, is_ours=True)
    if path.exists() and not overwrite:
        raise SpecError(f"{str(path)!r} already exists; --overwrite replaces it")
    _write(path, text)


def _write(path: Path, text: str) -> None:
    """Write a file that may be a spec, which other commands never replace."""
    with writing(path), replaced(Path(os.path.realpath(path))) as staging:
        staging.write_text(text, encoding="utf-8", newline="\n")


def _next_steps(path: Path, schema_file: Path, has_schema: bool) -> str:
    schema_text = f"Left {schema_file} as it was" if has_schema else f"Wrote {schema_file}"
    return f"""\
Wrote {path}: a spec with every key explained.
{schema_text}: editors complete and check the spec with it.

Next, put the names of your tables, columns and metrics into it; then
  sqlmetrics validate {quote(str(path))}
  sqlmetrics compile {quote(str(path))}
  sqlmetrics explain ndcg@10
  sqlmetrics list metrics"""


# What there is: the catalogue, the options, the presets and the dialects, as tables.

Record = dict[str, object]


def records(kind: str) -> list[Record]:
    """What there is of a kind, for programs: one dict each.

    Args:
        kind: `metrics`, `online`, `presets`, `options`, `dialects` or `exports`.
    """
    return _RECORDS[kind]()


def table(kind: str) -> Table:
    """The same for people; of an option, what it is about stands once, at the house default."""
    rows, before = [], None
    for record in records(kind):
        option = record.get("option")
        is_first = option is None or option != before
        before = option
        rows.append(record if is_first else {**record, "option": "", "about": ""})
    return Table(list(rows[0]), [list(map(_cell, row.values())) for row in rows])


def _metrics() -> list[Record]:
    return [
        {
            "metric": _spelled(metric),
            "title": metric.title,
            "range": metric.range,
            "better": metric.better,
            "unit": metric.unit,
            "aliases": list(metric.aliases),
            "formula": metric.formula,
        }
        for metric in listed()
    ]


def _online() -> list[Record]:
    return [
        {
            "online metric": _online_spelled(metric),
            "better": metric.better,
            "unit": metric.unit,
            "what it says": metric.title,
        }
        for metric in ONLINE.values()
    ]


def _online_spelled(metric: OnlineMetric) -> str:
    if metric.setting == "action":
        return f"{metric.name}(ACTION)"
    if metric.setting:
        return f"{metric.name}, {metric.name}({metric.setting}=N)"
    return f"{metric.name}, {metric.name}@k" if metric.cut else metric.name


def _options() -> list[Record]:
    return [
        {
            "option": option.name,
            "value": choice.name,
            "meaning": choice.meaning,
            "about": option.meaning,
        }
        for option in OPTIONS.values()
        for choice in option.choices
    ]


def _presets() -> list[Record]:
    return [
        {
            "preset": name,
            "differs from house in": list(preset.departures) or None,
            "reproduces": preset.note,
        }
        for name, preset in PRESETS.items()
    ]


def _dialects() -> list[Record]:
    rows: list[Record] = []
    for dialect in DIALECTS.values():
        trusted = trust(dialect)
        run = trusted.run
        rows.append(
            {
                "dialect": dialect.name,
                "of": dialect.title,
                "trust": trusted.level,
                "engine": str(run) if run else None,
                "numbers compared": run.compared if run else None,
                "largest difference": run.largest if run else None,
                "last run": f"{run.day} {run.commit}".strip() or None if run else None,
            }
        )
    return rows


def _exports() -> list[Record]:
    return [
        {
            "export": target.name,
            "tool": target.title,
            "dialects": list(target.dialects),
            "run in tests": target.executed,
            "what it gets": target.about,
        }
        for target in FORMATS.values()
    ]


_RECORDS: Mapping[str, Callable[[], list[Record]]] = {
    "metrics": _metrics,
    "online": _online,
    "presets": _presets,
    "options": _options,
    "dialects": _dialects,
    "exports": _exports,
}


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0e}"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _spelled(metric: Metric) -> str:
    return {
        "required": f"{metric.name}@k",
        "optional": f"{metric.name}, {metric.name}@k",
        "none": metric.name,
    }[metric.cutoff]

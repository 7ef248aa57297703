"""A spec to start from: the example with every key explained, and the schema for editors."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from sqlmetrics.engines.output_files import refuse_input, replaced, writing
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.template import folder

SCHEMA = "sqlmetrics.schema.json"
"""The schema's name beside a spec: the example's first line names it."""


def example(name: str = "example") -> str:
    """The text of an example spec: `example`, or `clicks` for a click log."""
    return (folder() / "cli" / f"{name}.yml").read_text(encoding="utf-8")


def schema() -> str:
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
        _write(schema_file, schema())
    return _told(path, schema_file, has_schema)


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


def _told(path: Path, schema_file: Path, has_schema: bool) -> str:
    schema = f"Left {schema_file} as it was" if has_schema else f"Wrote {schema_file}"
    return f"""\
Wrote {path}: a spec with every key explained.
{schema}: editors complete and check the spec with it.

Next, put the names of your tables, columns and metrics into it; then
  sqlmetrics validate {quote(str(path))}
  sqlmetrics compile {quote(str(path))}
  sqlmetrics explain ndcg@10
  sqlmetrics list metrics"""

"""A job as files of plain SQL: for a scheduler that has a database's client, and no Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import sqlmetrics
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.output_files import output_folder
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.sources import refuse_pipes
from sqlmetrics.jobs.days import client_days
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.exchange import together
from sqlmetrics.jobs.job import JobText, job_text, text
from sqlmetrics.jobs.schema import targets
from sqlmetrics.jobs.views import compiled_views
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialect import Client, Dialect
from sqlmetrics.sql.dialects import DEFAULT, DIALECTS, dialect_named
from sqlmetrics.sql.template import commented, literal
from sqlmetrics.sql.translation import Translation

THIS_RUN = "sqlmetrics_this_run"
RUN_ID = f"(select run_id from {THIS_RUN})"
NOW = f"(select started_at from {THIS_RUN})"


CLIENTS: Mapping[str, Client] = {
    known_dialect.name: known_dialect.writing.client
    for known_dialect in DIALECTS.values()
    if known_dialect.writing.client
}
"""Dialect -> the program that executes a compiled job."""


def compile_job(spec: Spec, name: str = DEFAULT) -> dict[str, str]:
    """The files of a job: name -> text; the same spec gives the same bytes.

    Args:
        spec: What is asked, with its `output`. Its sources must be relations, queries or files.
        name: A dialect, one of `CLIENTS`.

    Raises:
        SpecError: If the dialect has no client here, or cannot keep what a job needs.
    """
    refuse_pipes(spec)
    dialect = dialect_named(name)
    if name not in CLIENTS:
        client_names = ", ".join(CLIENTS)
        raise SpecError(
            f"compiled jobs do not exist for {dialect.title}; they exist for {client_names}"
        )
    keep_statement = CLIENTS[name].keep
    translation = Translation(replace(dialect, keep=keep_statement) if keep_statement else dialect)
    days = client_days(translation, CLIENTS[name].parameter)
    job = job_text(spec, translation, days, *_moment(spec, translation))
    parts: dict[str, list[str]] = {
        "01_tables.sql": [
            *dialect.session,
            *(dialect.scans if spec.clicks else ()),
            *job.tables,
        ],
        "02_evaluation.sql": [_this_run(translation), *job.evaluation]
        if translation.dialect.keep
        else [],
        "03_replacement.sql": [
            *job.replacement,
            *([f"{translation.dialect.drop} {THIS_RUN}"] if translation.dialect.keep else []),
        ],
        "04_views.sql": _views(spec, translation),
    }
    files = {
        file: f"{_about(spec, dialect, file, job)}\n{text(part)}"
        for file, part in parts.items()
        if part
    }
    return files | {"manifest.json": _manifest(spec, dialect, files)}


def write_job(spec: Spec, name: str, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write the files of a job into a folder, in the place of an older one.

    Args:
        spec: What is asked, with its `output`.
        name: A dialect.
        folder: Where to; it is made if it is not there.
        overwrite: Whether files of these names that are no job are replaced, too.

    Raises:
        SpecError: As `compile_job` does, or if somebody else's file is there.
        EngineError: If they cannot be written.
    """
    files = compile_job(spec, name)
    with output_folder(folder, overwrite=overwrite) as staging:
        for file, content in files.items():
            (staging / file).write_text(content, encoding="utf-8")
    target = Path(folder)
    for older in ABOUT.keys() - files.keys():  # a step that this job no longer has
        with suppress(OSError):
            (target / older).unlink()
    return [target / file for file in files]


ABOUT = {
    "01_tables.sql": "creates the tables that do not exist yet",
    "02_evaluation.sql": "computes the new rows into temporary tables",
    "03_replacement.sql": "replaces the rows from start up to, but not including, end",
    "04_views.sql": "creates the views beside the fact table",
}

PER_QUERY = (
    "in the per-query table, columns of metrics that the spec no longer names become NULL on "
    "these days; sqlmetrics run keeps them"
)

BY_RUN_ALONE = "is written by sqlmetrics run alone: SQL cannot say whether to ship"
"""What is said of an experiment's table where a job is text."""


def _about(spec: Spec, dialect: Dialect, file: str, job: JobText) -> str:
    sentences = [f"{spec.title}, for {dialect.title}: {ABOUT[file]}", str(trust(dialect))]
    if file == "03_replacement.sql":
        sentences.append(dialect.writing.promise)
        sentences += [PER_QUERY] if "per_query" in targets(spec) else []
        if experiment := targets(spec).get("experiment"):
            sentences.append(f"{experiment} {BY_RUN_ALONE}")
    of_job = job.about if file == "02_evaluation.sql" else ""  # of lists its statement says it
    return "".join(map(commented, filter(None, sentences))) + of_job


def _views(spec: Spec, translation: Translation) -> list[str]:
    """The views, all or none where that can be."""
    statements = compiled_views(spec, translation)
    return (
        together(spec, translation, statements)
        if statements and translation.dialect.undoes_views
        else statements
    )


def _moment(spec: Spec, translation: Translation) -> tuple[str, str]:
    """What names the run, and when it is; by its days, where nothing is kept."""
    if translation.dialect.keep:
        return RUN_ID, NOW
    start, end = (
        CLIENTS[translation.dialect.name].parameter.format(name=name) for name in ("start", "end")
    )
    days = f"concat({literal(f'{spec.title} ')}, {start}, ' ', {end})"
    return translation.user_text(days), translation.user_text("current_timestamp")


def _this_run(translation: Translation) -> str:
    """What names the run, and when it began."""
    about = (
        f"select\n    {translation.dialect.run_id} as run_id,\n    "
        f"{translation.dialect.times.now} as started_at"
    )
    return f"{translation.dialect.keep} {THIS_RUN} as\n{about}"


def _manifest(spec: Spec, dialect: Dialect, files: Mapping[str, str]) -> str:
    """What the files are, as JSON."""
    names = list(files)
    command = CLIENTS[dialect.name].command.format(
        files=" ".join(names), options=" ".join(f"-f {name}" for name in names)
    )
    manifest = {
        "spec": spec.title,
        "dialect": dialect.name,
        "client": CLIENTS[dialect.name].name,
        "version": sqlmetrics.__version__,
        "parameters": {"start": "the first day", "end": "the day after the last one"},
        "run": command,
        "files": {file: hashlib.sha256(body.encode()).hexdigest() for file, body in files.items()},
        "metrics": {at_cutoff(metric, k): definition for metric, k, definition in hashes(spec)},
    }
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"

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
from sqlmetrics.jobs.tables import targets
from sqlmetrics.jobs.views import compiled_views
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialect import Client, Dialect
from sqlmetrics.sql.dialects import DEFAULT, DIALECTS, dialect
from sqlmetrics.sql.template import commented, literal
from sqlmetrics.sql.translation import Translation

THIS_RUN = "sqlmetrics_this_run"
RUN_ID = f"(select run_id from {THIS_RUN})"
NOW = f"(select started_at from {THIS_RUN})"


CLIENTS: Mapping[str, Client] = {
    one.name: one.writing.client for one in DIALECTS.values() if one.writing.client
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
    the_dialect = dialect(name)
    if name not in CLIENTS:
        known = ", ".join(CLIENTS)
        raise SpecError(f"no job is compiled for {the_dialect.title}; there are {known}")
    kept = CLIENTS[name].keep
    at = Translation(replace(the_dialect, keep=kept) if kept else the_dialect)
    days = client_days(at, CLIENTS[name].parameter)
    job = job_text(spec, at, days, *_moment(spec, at))
    parts: dict[str, list[str]] = {
        "01_tables.sql": [*the_dialect.session, *job.tables],
        "02_evaluation.sql": [_this_run(at), *job.evaluation] if at.dialect.keep else [],
        "03_replacement.sql": [
            *job.replacement,
            *([f"{at.dialect.drop} {THIS_RUN}"] if at.dialect.keep else []),
        ],
        "04_views.sql": _views(spec, at),
    }
    files = {
        file: f"{_about(spec, the_dialect, file, job)}\n{text(part)}"
        for file, part in parts.items()
        if part
    }
    return files | {"manifest.json": _manifest(spec, the_dialect, files)}


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
    with output_folder(folder, overwrite=overwrite) as beside:
        for file, content in files.items():
            (beside / file).write_text(content, encoding="utf-8")
    target = Path(folder)
    for older in ABOUT.keys() - files.keys():  # a step that this job no longer has
        with suppress(OSError):
            (target / older).unlink()
    return [target / file for file in files]


ABOUT = {
    "01_tables.sql": "the tables that stay, unless they are there",
    "02_evaluation.sql": "what is new, kept for as long as the session lasts",
    "03_replacement.sql": "the rows of the days from start until before end, replaced",
    "04_views.sql": "views beside the fact table",
}

PER_QUERY = (
    "columns of the per-query table of metrics that the spec asks for no more are NULL on these "
    "days, which sqlmetrics run keeps"
)


def _about(spec: Spec, at: Dialect, file: str, job: JobText) -> str:
    told = [f"{spec.title}, for {at.title}: {ABOUT[file]}", str(trust(at))]
    if file == "03_replacement.sql":
        told.append(at.writing.promise)
        told += [PER_QUERY] if "per_query" in targets(spec) else []
    of_job = job.about if file == "02_evaluation.sql" else ""  # of lists its statement says it
    return "".join(map(commented, filter(None, told))) + of_job


def _views(spec: Spec, at: Translation) -> list[str]:
    """The views, all or none where that can be."""
    made = compiled_views(spec, at)
    return together(spec, at, made) if made and at.dialect.undoes_views else made


def _moment(spec: Spec, at: Translation) -> tuple[str, str]:
    """What names the run, and when it is; by its days, where nothing is kept."""
    if at.dialect.keep:
        return RUN_ID, NOW
    start, end = (CLIENTS[at.dialect.name].parameter.format(name=one) for one in ("start", "end"))
    days = f"concat({literal(f'{spec.title} ')}, {start}, ' ', {end})"
    return at.own_text(days), at.own_text("current_timestamp")


def _this_run(at: Translation) -> str:
    """What names the run, and when it began."""
    about = f"select\n    {at.dialect.run_id} as run_id,\n    {at.dialect.times.now} as started_at"
    return f"{at.dialect.keep} {THIS_RUN} as\n{about}"


def _manifest(spec: Spec, at: Dialect, files: Mapping[str, str]) -> str:
    """What the files are, as JSON."""
    names = list(files)
    command = CLIENTS[at.name].command.format(
        files=" ".join(names), options=" ".join(f"-f {name}" for name in names)
    )
    told = {
        "spec": spec.title,
        "dialect": at.name,
        "client": CLIENTS[at.name].name,
        "version": sqlmetrics.__version__,
        "parameters": {"start": "the first day", "end": "the day after the last one"},
        "run": command,
        "files": {file: hashlib.sha256(body.encode()).hexdigest() for file, body in files.items()},
        "metrics": {at_cutoff(metric, k): definition for metric, k, definition in hashes(spec)},
    }
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"

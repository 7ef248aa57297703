"""What input a run checked, for the next one: the same bytes, read alike, need no second look."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from glob import glob
from pathlib import Path

import sqlmetrics
from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.days import Question
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.spec.definition import sources_of
from sqlmetrics.spec.source import REMOTE, Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation

CHECKED_INPUT = "checked_input"
"""The column of the run log."""

_MOVING = re.compile(r"current_|localtime|\b(now|today|random|uuid)\s*\(", re.IGNORECASE)
"""Conditions of which the same bytes may give other rows tomorrow."""


def checked_input(question: Question, engine: Database) -> str:
    """A hash of what the input checks read: files, how they are read, days, and who checks.

    Empty where that cannot be told by the bytes of files: a click log, tables of the database,
    addresses, and conditions on the time or on chance.

    Args:
        question: What is asked, of which days.
        engine: Where it is computed.
    """
    spec = question.spec
    sources = sources_of(spec)
    text = spec.model_dump_json()
    if spec.clicks is not None or _MOVING.search(text):
        return ""
    digests: dict[str, list[str]] = {}
    for role, source in sorted(sources.items()):
        files = _files(source)
        if not files:
            return ""
        try:
            digests[role] = [_digest(file) for file in files]
        except OSError:  # whoever reads it says what is wrong
            return ""
    version = [sqlmetrics.__version__, engine.name, str(engine.version)]
    parts = [version, text, sorted(hashes(spec)), str(question.ends), question.day, digests]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def run_that_checked(spec: Spec, digest: str, engine: Database) -> str:
    """The run that checked this input and wrote its numbers; empty if none did.

    Args:
        spec: What is asked.
        digest: What `checked_input` says.
        engine: Where the run log is.
    """
    table = targets(spec)["runs"]
    if not digest or CHECKED_INPUT not in columns_of(table, engine):
        return ""
    rows = engine.rows(
        f"select run_id from {relation(table)} where spec = {literal(spec.title)} and outcome = "
        f"'replaced' and {CHECKED_INPUT} = {literal(digest)} order by started_at desc limit 1"
    )
    return str(rows[0][0]) if rows else ""


def _files(source: Source) -> Sequence[str]:
    """The files of a source in their order; none if it is no file of this machine."""
    if source.file is None or source.file.startswith(REMOTE):
        return ()
    if Path(source.file).is_dir():
        return sorted(str(path) for path in Path(source.file).rglob("*") if path.is_file())
    return (
        [source.file] if Path(source.file).is_file() else sorted(glob(source.file, recursive=True))
    )


def _digest(file: str) -> str:
    """The hash of a file's bytes."""
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()

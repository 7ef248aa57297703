"""What only shows once queries and labels are put together."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path

import sqlmetrics
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script
from sqlmetrics.spec.definition import sources_of
from sqlmetrics.spec.source import REMOTE, Source
from sqlmetrics.spec.spec import Spec

_WEIGHED = {
    "rankings": "choose missing=drop, or rank them in some system",
    "queries": "add them to the queries table",
}


def check_kept(plan: Plan, script: Script, engine: Database) -> None:
    """Raise InputError for what only shows once queries and labels are put together.

    Args:
        plan: The plan of the evaluation.
        script: How `per_query` is read.
        engine: Where it is.

    Raises:
        InputError: If a query is missing though missing=error, or has no weight.
    """
    keys = ", ".join(plan.shape.keys)
    for condition, problem, remedy in _refused(plan):
        rows = f"from per_query where {condition}"
        count = engine.rows(script.over(f"select count(*) {rows}"))[0][0]
        if count:
            first = f"select {keys} {rows} order by {keys} limit {EXAMPLES}"
            examples = engine.rows(script.over(first))
            message = f"labelled queries {problem}: {count:,}"
            raise InputError(Problem("labels", message, count, plan.shape.keys, examples, remedy))


def _refused(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """What no query may meet, what it is then, and what to do."""
    missing = plan.spec.options["missing"]
    if missing == "error":
        yield "is_ranked = 0", "without a ranking", "choose missing=zero or missing=drop"
    if plan.shape.weighted:
        ranked = " and is_ranked = 1" if missing == "drop" else ""
        remedy = _WEIGHED[plan.shape.weighted]
        yield f"weight is null{ranked}", "without a weight", remedy


# What input a run checked, for the next one: the same bytes, read alike, need no second look.

_MOVING = re.compile(r"current_|localtime|\b(now|today|random|uuid)\s*\(", re.IGNORECASE)
"""Conditions of which the same bytes may give other rows tomorrow; none can read another table."""


def input_hash(spec: Spec, parts: Sequence[str], engine: Database) -> str:
    """A hash of what the input checks read: files, how they are read, days, and who checks.

    Empty where that cannot be told by the bytes of files: a click log, tables of the database,
    addresses, and conditions on the time or on chance. Names of files count, since folders may be
    days.

    Args:
        spec: What is asked.
        parts: What else decides what is read: the days, and the definitions of the metrics.
        engine: Where it is computed.
    """
    sources = sources_of(spec)
    text = spec.model_dump_json()
    if spec.clicks is not None or _MOVING.search(text):
        return ""
    digests: dict[str, list[tuple[str, str]]] = {}
    for role, source in sorted(sources.items()):
        files = _files(source)
        if not files:
            return ""
        try:
            digests[role] = [(file, _digest(file)) for file in files]
        except OSError:  # whoever reads it says what is wrong
            return ""
    version = [sqlmetrics.__version__, engine.name, str(engine.version)]
    return hashlib.sha256(json.dumps([version, text, *parts, digests]).encode()).hexdigest()


def _files(source: Source) -> Sequence[str]:
    """The files of a source in their order; none if it is no file of this machine."""
    if source.file is None or source.file.startswith(REMOTE):
        return ()
    if Path(source.file).is_dir():
        paths = [str(path) for path in Path(source.file).rglob("*") if not path.is_dir()]
    else:
        paths = [source.file] if Path(source.file).exists() else glob(source.file, recursive=True)
    # a pipe can be read but once
    return sorted(paths) if all(Path(path).is_file() for path in paths) else ()


def _digest(file: str) -> str:
    """The hash of a file's bytes."""
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()

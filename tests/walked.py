"""Pages that make what they need: their blocks run one after the other, in an empty folder.

A block is run by its language, and the block of `text` behind it, if there is one, is what it
prints:

* `sh`: `mkdir -p FOLDER ...` makes folders, `cat > FILE <<'END'` writes a file,
  `sqlmetrics ...` runs; `# exit code 1` behind a line is the code to expect; `git ...` runs, and
  gives the same commits each time;
* `yaml` whose first line is a comment with the name of a file: that file is written;
* `python`: runs, all blocks of a page in one namespace;
* `sql`: runs in DuckDB, on `metrics.duckdb` if the page has made it, else all blocks of a page on
  one database in memory. A block that ends with a comma is a part of a query.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import duckdb

from sqlmetrics.cli import main
from sqlmetrics.tables.table import Table

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEREDOC = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END$\n?", re.DOTALL | re.MULTILINE)
MKDIR = re.compile(r"^mkdir -p (.+)\n", re.MULTILINE)
NAMED = re.compile(r"^# (\S+\.yml)\n")
VARIES = re.compile(r"\b\d+(\.\d+)? s\b")
"""How long it took."""
AUTHOR = {
    f"GIT_{role}_{name}": value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in {"NAME": "A", "EMAIL": "a@shop.example", "DATE": "2026-01-05T00:00Z"}.items()
}


def page_as_run(page: str, folder: Path) -> str:
    """A page with what its blocks print here and now, in the place of what it says they do.

    Args:
        page: The page's text.
        folder: An empty folder.
    """
    parts, at, output = [], 0, None
    names: dict[str, object] = {}
    environment = patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1"})
    with chdir(folder), environment, duckdb.connect() as memory:
        for match in FENCE.finditer(page):
            language, body = match.groups()
            if language == "text" and output is not None:
                parts.append(page[at : match.start(2)] + _unless_only_times_differ(body, output))
                at, output = match.end(2), None
            else:
                output = _run(language, body, names, memory)
    return "".join([*parts, page[at:]])


def _unless_only_times_differ(old: str, new: str) -> str:
    """What was said, if it differs in nothing but times."""
    return old if VARIES.sub("", old) == VARIES.sub("", new) else new


def _run(
    language: str, body: str, names: dict[str, object], memory: duckdb.DuckDBPyConnection
) -> str | None:
    """What a block prints; None if it is not run."""
    if language == "sh":
        return "".join(_shell(body))
    if language == "python":
        out = io.StringIO()
        # a server that a block starts writes its log to a stderr that is a file
        with redirect_stdout(out), redirect_stderr(sys.__stderr__):
            exec(compile(body, "page", "exec"), names)
        return out.getvalue()
    if language == "sql" and not body.endswith(",\n"):
        if not Path("metrics.duckdb").exists():
            return _query(body, memory)
        with duckdb.connect("metrics.duckdb", read_only=True) as database:
            return _query(body, database)
    if language == "yaml" and (named := NAMED.match(body)):
        path = Path(named[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
    return None


def _shell(body: str) -> Iterator[str]:
    """What each line of a block of shell prints."""
    for folders in MKDIR.findall(body):
        for folder in folders.split():
            Path(folder).mkdir(parents=True, exist_ok=True)
    for path, text in HEREDOC.findall(body):
        Path(path).write_text(text, encoding="utf-8")
    for line in re.sub(r"\\\n\s*", "", HEREDOC.sub("", MKDIR.sub("", body))).splitlines():
        code = re.search(r"# exit code (\d)$", line)
        words = shlex.split(line, comments=True)
        if not words or words[:2] == ["pip", "install"]:
            continue
        if words[0] == "git":
            subprocess.run(words, check=True, capture_output=True, env={**os.environ, **AUTHOR})
            continue
        assert words[0] == "sqlmetrics", f"the walk has no {words[0]}"
        yield _command(words, int(code[1]) if code else 0)


def _command(words: list[str], expect: int) -> str:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    code: object = 0
    with patch("sys.argv", words), redirect_stdout(out), redirect_stderr(out):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    out.flush()
    text: str = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert code == expect, f"{shlex.join(words)}: {text}"
    return text


def _query(body: str, database: duckdb.DuckDBPyConnection) -> str | None:
    """The rows of a query, as a table; None of what has none."""
    rows = database.sql(body)
    if rows is None:
        return None
    kinds = [str(kind) in NUMBERS for kind in rows.types]
    texts = [[_cell(value) for value in row] for row in rows.fetchall()]
    first = kinds.index(True) if True in kinds else len(kinds)
    return Table(rows.columns, texts, first).text() + "\n"


NUMBERS = ("DOUBLE", "BIGINT", "INTEGER", "HUGEINT")


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:.4f}" if isinstance(value, float) else str(value)

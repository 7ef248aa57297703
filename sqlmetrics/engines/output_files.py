"""Files that are written: whole or not at all, and never in the place of what is not ours.

What a command reads, a database, a spec or a profile is replaced by nothing. Another file is
replaced if an earlier run of the same command wrote it, as its first words say, or if somebody
insists. All is written beside its place, and moved there when it is whole.
"""

from __future__ import annotations

import glob
import os
import platform
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlmetrics.engines.file_kinds import DUCKDB, PARQUET, SQLITE, kind_of, start_of
from sqlmetrics.errors import EngineError, SpecError

IsOurs = Callable[[Path, Path], bool]
"""Of a file that is there and of the new one: whether the same command wrote both."""

SPECS = (".yml", ".yaml")
"""Endings of specs and profiles."""

BY_US = b"sqlmetrics"
"""The key in a Parquet file's metadata that says who wrote it."""

OLD = 86_400.0
"""A file that was last written so many seconds ago is written by nobody."""

_READ: set[str] = set()
"""The files and globs that this command has read."""


def forget_read() -> None:
    """A command begins: it has read nothing yet."""
    _READ.clear()


def note_read(path: str | Path) -> None:
    """Note that the command reads a file, or the files of a glob."""
    _READ.add(str(path))


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Tell in one sentence if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise EngineError(f"cannot write {str(path)!r}: {error.strerror}") from None


@contextmanager
def writing_to(folder: str | Path) -> Iterator[Path]:
    """A folder that is made if it is not there; told likewise."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield Path(folder)
    except OSError as error:
        raise EngineError(f"cannot write to {str(folder)!r}: {error.strerror}") from None


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """A path beside a file: what is written there takes the file's place in one step.

    What a process that was killed has left there is removed first.
    """
    for leftover in _leftovers(file):
        with suppress(OSError):  # another user's, or gone
            leftover.unlink()
    mark = f"{os.getpid():x}-{_machine()}-{secrets.token_hex(4)}"
    beside = file.with_name(f".{file.stem}.{mark}{file.suffix}")
    try:
        yield beside
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        if file.exists():
            shutil.copymode(file, beside)
        os.replace(beside, file)
    finally:
        for leftover in (beside, beside.with_name(f"{beside.name}.wal")):  # which DuckDB may leave
            with suppress(OSError):
                leftover.unlink()


@contextmanager
def output_file(
    path: str | Path, *, overwrite: bool = False, is_ours: IsOurs | None = None
) -> Iterator[Path]:
    """Where to write what shall stand in a file once it is whole.

    Args:
        path: The file; a link is followed, and a pipe or device is written to as it is.
        overwrite: Whether a file that is not ours is replaced, too.
        is_ours: How to know one of ours. Default: it begins like the new one.

    Yields:
        A path beside the file.

    Raises:
        SpecError: If the file is read by this command, is a database, spec or profile, or is not
            ours and `overwrite` is off.
        EngineError: If it cannot be written; the old one is still whole then.
    """
    refuse_input(path)
    file = Path(os.path.realpath(path))
    with writing(path):
        if file.exists() and not file.is_file():
            yield file
            return
        with replaced(file) as beside:
            yield beside
            if not overwrite:
                _refuse_foreign([(file, beside)], is_ours or begins_alike)


@contextmanager
def output_folder(
    folder: str | Path, *, overwrite: bool = False, is_ours: IsOurs | None = None
) -> Iterator[Path]:
    """Where to write files that shall stand in a folder once all of them are whole.

    Other files of the folder stay. Arguments and errors are those of `output_file`.

    Yields:
        An empty folder, in that folder.
    """
    with writing_to(folder) as target:
        was_there = any(target.iterdir())
        beside = target / f".{secrets.token_hex(4)}"
        try:
            beside.mkdir()
            yield beside
            written = sorted(path for path in beside.rglob("*") if path.is_file())
            pairs = [(target / path.relative_to(beside), path) for path in written]
            knows = is_ours or begins_alike
            for file, new in pairs:
                refuse_input(file, was_exported=file.is_file() and knows(file, new))
            if not overwrite:
                _refuse_foreign(pairs, knows)
            for file, path in pairs:
                file.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, file)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            if not was_there:
                with suppress(OSError):
                    target.rmdir()  # of a failure: it is empty


def check_output(path: str | Path, start: str, *, overwrite: bool = False) -> None:
    """Refuse a file before anything is computed, by the first words of what will stand in it.

    Raises:
        SpecError: As `output_file` does.
    """
    refuse_input(path)
    file = Path(path)
    if file.is_file() and not overwrite:
        old = start_of(str(file))
        if old and _first_words(old) != _first_words(start.encode()):
            raise _foreign([file])


def refuse_input(path: str | Path, *, was_exported: bool = False) -> None:
    """Raise SpecError for a file that no output may replace, whoever insists.

    Args:
        path: The file.
        was_exported: Whether a command wrote it, so that YAML is not somebody's spec.
    """
    file = Path(path)
    if not file.is_file():
        if file.is_dir():
            raise SpecError(f"{str(path)!r} is a folder; name a file")
        return
    if file.suffix.casefold() in SPECS and not was_exported:
        what = "may be a spec or a profile"
    elif (kind := kind_of(start_of(str(file)))) in (DUCKDB, SQLITE):
        what = f"is {kind}"
    elif any(_is_same(file, read) for read in _READ):
        what = "is read by this command"
    else:
        return
    raise SpecError(f"{str(path)!r} {what}, and is not written over; give another name")


def _is_same(file: Path, read: str) -> bool:
    paths: Iterable[str] = glob.iglob(read, recursive=True) if glob.has_magic(read) else (read,)
    return any(os.path.exists(path) and os.path.samefile(file, path) for path in paths)


def _refuse_foreign(pairs: Iterable[tuple[Path, Path]], is_ours: IsOurs) -> None:
    foreign = [file for file, new in pairs if file.exists() and not is_ours(file, new)]
    if foreign:
        raise _foreign(foreign)


def _foreign(files: Sequence[Path]) -> SpecError:
    names = ", ".join(repr(str(file)) for file in files[:3])
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return SpecError(
        f"{names}{more}: there already, and not written by this command; give another name, or "
        "--overwrite to replace"
    )


def has_mark(mark: bytes) -> IsOurs:
    """What knows files of ours by a text that stands in each of them."""
    return lambda file, _: not file.stat().st_size or mark in file.read_bytes()


def is_there(file: Path, _: Path) -> bool:
    """Whatever is there is ours: somebody has looked before."""
    return file.exists()


def begins_alike(file: Path, new: Path) -> bool:
    """Whether two files begin with the same words: names of columns, keys of JSON, tags of XML.

    An empty file is no loss. A Parquet file says who wrote it.
    """
    start, new_start = start_of(str(file)), start_of(str(new))
    if not start:
        return True
    if kind_of(start) == PARQUET:
        import pyarrow.parquet as pq

        return BY_US in (pq.read_schema(file).metadata or {})
    return _first_words(start) == _first_words(new_start) != []


def _first_words(start: bytes) -> list[str]:
    r"""What tells a kind of text from others.

    >>> _first_words(b'[{"metric": "ndcg@10", "k": 10,')
    ['metric', 'k']
    >>> _first_words(b"query_id,item_id,grade,note,more\nq1,a,2,,")
    ['query_id', 'item_id', 'grade']
    >>> _first_words(b'<testsuite name="shop"><testcase>')
    ['testsuite', 'testcase', 'shop']
    """
    text = start.decode("utf-8-sig", "replace").lstrip()
    if text[:1] in ("[", "{"):
        return re.findall(r'"((?:[^"\\]|\\.)*)"\s*:', text)[:3]
    if text[:1] == "<":
        names = re.findall(r'\bname="([^"]*)"', text)
        return [*re.findall(r"<(\w[\w:]*)", text)[:3], *names[:1]]
    return re.findall(r"[^\W\d_]\w*", text.partition("\n")[0])[:3]


def _leftovers(file: Path) -> Iterator[Path]:
    """Files that were written beside a file by processes that ended before they were done.

    Of another machine, where a process cannot be seen, what is OLD.
    """
    name = re.compile(
        rf"\.{re.escape(file.stem)}\.(?:([0-9a-f]+)-([0-9a-f]+)-)?[0-9a-f]{{8}}"
        rf"{re.escape(file.suffix)}(?:\.wal)?"
    )
    with suppress(OSError):
        for entry in os.scandir(file.parent):
            if match := name.fullmatch(entry.name):
                process, machine = match.groups()
                is_here = machine == _machine() and os.name == "posix"
                if _has_ended(int(process, 16)) if is_here else _is_old(entry):
                    yield Path(entry.path)


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, or no number of a process
        return False
    return False


def _is_old(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return time.time() - entry.stat().st_mtime > OLD
    return False


def _machine() -> str:
    return f"{zlib.crc32(platform.node().encode()):x}"

"""Files that are written: whole or not at all, and never in the place of what is not ours.

What a command reads, a database, a spec, a profile or a sheet with grades is replaced by nothing.
Another file is replaced if an earlier run of the same command wrote it, as its first words say,
or if somebody insists. All is written beside its place, and moved there when it is whole.
"""

from __future__ import annotations

import csv
import filecmp
import glob
import itertools
import os
import platform
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlmetrics.engines.file_kinds import DUCKDB, PARQUET, PNG, SQLITE, TEXT, kind_of, start_of
from sqlmetrics.errors import EngineError, SpecError

IsOurs = Callable[[Path, Path], bool]
"""Of a file that is there and of the new one: whether the same command wrote both."""

SPECS = (".yml", ".yaml")
"""Endings of specs and profiles."""

BY_US = b"sqlmetrics"
"""The key in a Parquet file's metadata that says who wrote it."""

STAGING = "sqlmetrics"
"""What the hidden folder is called in which the files of a folder are made."""

OLD = 86_400.0
"""A file that was last written so many seconds ago is written by nobody."""

GRADED = ("grade", "row_key")
"""Columns of a labelling sheet: what people fill in, and the key that is not theirs to change."""

_READ: set[str] | None = None
"""The files, folders and globs that the command reads; None outside a command."""


@contextmanager
def noting_reads() -> Iterator[None]:
    """While a command runs, what it reads is noted; a session of Python notes nothing."""
    global _READ  # noqa: PLW0603  # one command runs at a time
    _READ = set()
    try:
        yield
    finally:
        _READ = None


def note_read(path: str | Path) -> None:
    """Note that the command reads a file, the files of a folder, or those of a glob."""
    if _READ is not None and str(path).strip():
        _READ.add(os.path.abspath(path))


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
    staging = _beside(file)
    try:
        yield staging
        _sync(staging)
        if file.exists():
            shutil.copymode(file, staging)
        os.replace(staging, file)
    finally:
        for leftover in (
            staging,
            staging.with_name(f"{staging.name}.wal"),
        ):  # which DuckDB may leave
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
        SpecError: If the file is read by this command, is a database, spec, profile or graded
            sheet, or is not ours and `overwrite` is off.
        EngineError: If it cannot be written; the old one is still whole then.
    """
    refuse_input(path)
    file = Path(os.path.realpath(path))
    with writing(path):
        if file.exists() and not file.is_file():
            yield file
            return
        with replaced(file) as staging:
            yield staging
            _refuse_foreign([(Path(path), staging)], is_ours or begins_alike, overwrite=overwrite)


@contextmanager
def output_folder(
    folder: str | Path, *, overwrite: bool = False, is_ours: IsOurs | None = None
) -> Iterator[Path]:
    """Where to write files that shall stand in a folder once all of them are whole.

    Other files of the folder stay. If one of them cannot be moved into place, those before it
    are put back. Arguments and errors are those of `output_file`.

    Yields:
        An empty folder, in that folder.
    """
    was_there = os.path.isdir(folder)
    with writing_to(folder) as target:
        for leftover in _leftovers(target / STAGING):
            shutil.rmtree(leftover, ignore_errors=True)
        staging = _beside(target / STAGING)
        try:
            staging.mkdir()
            yield staging
            new_files = sorted(path for path in staging.rglob("*") if path.is_file())
            pairs = [(target / path.relative_to(staging), path) for path in new_files]
            _refuse_foreign(pairs, is_ours or begins_alike, overwrite=overwrite)
            for path in new_files:
                _sync(path)
            _move(pairs, staging)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            if not was_there:
                with suppress(OSError):
                    target.rmdir()  # of a failure: it is empty


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _move(pairs: Sequence[tuple[Path, Path]], staging: Path) -> None:
    """Move files to where they belong: all of them, or the old ones stay."""
    olds: dict[Path, Path | None] = {}
    try:
        for number, (file, path) in enumerate(pairs):
            file.parent.mkdir(parents=True, exist_ok=True)
            old = None
            if file.exists():
                old = staging / f"{number}.old"
                shutil.copymode(file, path)
                _keep(file, old)
            olds[file] = old
            os.replace(path, file)
    except BaseException:
        for file, old in olds.items():
            with suppress(OSError):
                if old is None:
                    file.unlink()
                else:
                    os.replace(old, file)
        raise


def _keep(file: Path, old: Path) -> None:
    """The file under a second name; a copy, where a disk has no links."""
    try:
        os.link(file, old)
    except OSError:
        shutil.copy2(file, old)


def check_output(path: str | Path, start: bytes, *, overwrite: bool = False) -> None:
    """Refuse a file before anything is computed, by what is known of how the new one begins.

    Args:
        path: The file.
        start: The first of its first words, such as names of columns; `[` of any JSON; empty of
            any text. What may still be ours is looked at by `output_file`, once all is known.
        overwrite: Whether a file that is not ours is replaced, too.

    Raises:
        SpecError: As `output_file` does.
    """
    refuse_input(path)
    file = Path(path)
    if file.is_file() and not overwrite and not _may_be_ours(file, start):
        raise _foreign([file])


def _may_be_ours(file: Path, start: bytes) -> bool:
    old = start_of(str(file))
    if _is_no_loss(old):
        return True
    if PARQUET in (kind := kind_of(old), kind_of(start)):
        return kind == PARQUET and begins_alike(file, file)
    if kind_of(start) == PNG:
        return kind == PNG
    is_alike = _mark(start) in ("", _mark(old)) and kind == TEXT
    return is_alike and {*_first_words(start)} <= {*_first_words(old)}


def _mark(start: bytes) -> str:
    """What all JSON, XML or LaTeX begins with; empty for other text."""
    mark = start.decode("utf-8-sig", "replace").lstrip()[:1].replace("[", "{")
    return mark if mark and mark in "{<\\" else ""


def _is_no_loss(start: bytes) -> bool:
    """Whether a file holds nothing: no byte, or an empty list of JSON."""
    return not start or start.split() in ([b"[]"], [b"[", b"]"])


def refuse_existing(files: Iterable[Path]) -> None:
    """Raise SpecError if one of the files is there, before anything is computed."""
    if existing := [file for file in files if file.exists()]:
        raise _foreign(existing)


def refuse_input(path: str | Path, *, is_ours: bool = False) -> None:
    """Refuse a file that no output may replace, whoever insists.

    Args:
        path: The file; one that is not there is well.
        is_ours: Whether it is known that the same command wrote it, though it may be YAML.

    Raises:
        SpecError: If it is a folder, is read by this command, or is a database, spec, profile or
            graded sheet.
    """
    file = Path(path)
    with writing(path):
        if not file.is_file():
            if file.is_dir():
                raise SpecError(f"{str(path)!r} is a folder; give the name of a file")
            return
        start = start_of(str(file))
        another = "give another name"
        if any(_is_in(file, read) for read in _READ or ()):
            reason = "this command reads it"
        elif (kind := kind_of(start)) in (DUCKDB, SQLITE):
            reason = f"is {kind}"
        elif file.suffix.casefold() in SPECS and start and not is_ours:
            reason = "it may be a spec or a profile"
        elif grades := _n_grades(file, start):
            reason = f"it is a sheet with {grades:,} grade{'s' if grades > 1 else ''}"
            another = f"add them to the labels (sheet-import), or {another}, like {_free(file)}"
        else:
            return
    raise SpecError(f"{str(path)!r} cannot be overwritten: {reason}; {another}")


def _is_in(file: Path, read: str) -> bool:
    """Whether a file is one that is read: it itself, of a folder, or of a glob."""
    has_more = glob.has_magic(read) and not os.path.exists(read)
    paths: Iterable[str] = glob.iglob(read, recursive=True) if has_more else (read,)
    above = {*file.resolve().parents}
    return any(
        Path(path).resolve() in above if os.path.isdir(path) else os.path.samefile(file, path)
        for path in paths
        if os.path.exists(path)
    )


def _n_grades(file: Path, start: bytes) -> int:
    """How many grades a labelling sheet holds, however a spreadsheet has saved it."""
    heading = start.decode("utf-8-sig", "replace").partition("\n")[0]
    if not all(name in heading for name in GRADED):
        return 0
    separator = max(",;\t", key=heading.count)
    try:
        with file.open(encoding="utf-8-sig", errors="replace", newline="") as sheet:
            rows = csv.DictReader(sheet, delimiter=separator)
            return sum(bool((row.get(GRADED[0]) or "").strip()) for row in rows)
    except csv.Error:  # a field that is too long: it is no sheet of ours
        return 0


def _free(file: Path) -> Path:
    """`sheet-2.csv`, or the first such name that is free."""
    names = (file.with_stem(f"{file.stem}-{number}") for number in itertools.count(2))
    return next(name for name in names if not name.exists())


def _refuse_foreign(
    pairs: Iterable[tuple[Path, Path]], is_ours: IsOurs, *, overwrite: bool
) -> None:
    foreign = []
    for file, new in pairs:
        if file.exists() and file.is_file():
            is_our_file = is_ours(file, new)
            refuse_input(file, is_ours=is_our_file)
            if not (is_our_file or overwrite):
                foreign.append(file)
        elif file.exists():
            refuse_input(file)
    if foreign:
        raise _foreign(foreign)


def _foreign(files: Sequence[Path]) -> SpecError:
    names = ", ".join(repr(str(file)) for file in files[:3])
    suffix = f" and {len(files) - 3} more" if len(files) > 3 else ""
    subject = "it exists and was" if len(files) == 1 else "they exist and were"
    return SpecError(
        f"{names}{suffix}: {subject} not written by this command; give another name, or --overwrite"
    )


def opening(form: str, columns: Iterable[str] = ()) -> bytes:
    r"""How a file of a format begins, as far as names of its first columns tell.

    >>> opening("csv", ("system", "metric")), opening("json", ("system",)), opening("latex")
    (b'system,metric', b'[{"system": 0', b'\\')
    """
    if form in ("json", "jsonl"):
        return ("[{" + ", ".join(f'"{name}": 0' for name in columns)).encode()
    if form == "png":
        return b"\x89PNG"
    starts = {"csv": ",".join(columns), "html": "<", "latex": "\\", "parquet": "PAR1"}
    return starts.get(form, "").encode()


def has_columns(form: str, *names: str) -> IsOurs:
    """What knows rows of ours by names among their first columns, though the new ones are none."""
    return lambda file, _: _may_be_ours(file, opening(form, names))


def has_mark(mark: bytes) -> IsOurs:
    """What knows files of ours by a text that stands in each of them."""
    return lambda file, _: not file.stat().st_size or mark in file.read_bytes()


def begins_alike(file: Path, new: Path) -> bool:
    """Whether two files begin with the same words: names of columns, keys of JSON, tags of XML.

    A file that holds nothing is no loss. A Parquet file says who wrote it. A run or qrels of TREC
    has no words of ours, so it must be the same.
    """
    start, new_start = start_of(str(file)), start_of(str(new))
    if _is_no_loss(start):
        return True
    if kind_of(start) == PARQUET:
        import pyarrow.parquet as pq

        return BY_US in (pq.read_schema(file).metadata or {})
    if _is_trec(new_start):  # other runs and qrels of the same queries begin with the same words
        return filecmp.cmp(file, new, shallow=False)
    return _first_words(start) == _first_words(new_start) != []


def _is_trec(start: bytes) -> bool:
    r"""Whether a text is a run or qrels, as we write them.

    >>> _is_trec(b"q1 0 a 2\n"), _is_trec(b"q1 Q0 a 1 2.5 rrf\n"), _is_trec(b"system  mrr\n")
    (True, True, False)
    """
    fields = start.partition(b"\n")[0].split()
    return (len(fields), fields[1:2]) in ((4, [b"0"]), (6, [b"Q0"]))


def _first_words(start: bytes) -> list[str]:
    r"""What tells a kind of text from others.

    >>> _first_words(b'[{"metric": "ndcg@10", "k": 10,')
    ['metric', 'k']
    >>> _first_words(b"query_id,item_id,grade,note,more\nq1,a,2,,")
    ['query_id', 'item_id', 'grade']
    >>> _first_words(b'<testsuite name="shop"><testcase>')
    ['testsuite', 'testcase', 'shop']
    >>> _first_words(b"<table><tr><th>date</th><th>system</th></tr></table>")
    ['table', 'tr', 'th', 'date', 'system']
    """
    text = start.decode("utf-8-sig", "replace").lstrip()
    if text[:1] in ("[", "{"):
        return re.findall(r'"((?:[^"\\]|\\.)*)"\s*:', text)[:3]
    if text[:1] == "<":
        names = re.findall(r'\bname="([^"]*)"', text)
        titles = re.findall(r"<th>([^<]*)", text)
        return [*re.findall(r"<(\w[\w:]*)", text)[:3], *names[:1], *titles[:3]]
    if text[:1] == "\\":  # a table of LaTeX, whose titles stand on its third line
        return re.findall(r"[^\W\d_]\w*", text)[:6]
    return re.findall(r"[^\W\d_]\w*", text.partition("\n")[0])[:3]


def _beside(file: Path) -> Path:
    """A name beside a file that tells which process writes there."""
    mark = f"{os.getpid():x}-{_machine()}-{os.urandom(4).hex()}"
    return file.with_name(f".{file.stem}.{mark}{file.suffix}")


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

"""Pipes: what is written to one can be read once, and is read often, so it is kept in a file.

`zcat x.csv.gz | sqlmetrics evaluate - labels.csv`, `<(zcat ...)` and named pipes then work like
files. A pipe has no ending that says its format: the bytes do.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from sqlmetrics.engines.file_kinds import GZIP, LOOKED_AT, PARQUET, kind_of
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import EngineError, InputError

STDIN = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
PATIENCE = 10.0
"""For as many seconds a named pipe may have nobody who writes to it."""

_OPEN_FILES = re.compile(r"/dev/fd/\d+|/proc/(self|\d+)/fd/\d+")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

_KEPT: dict[tuple[int, int], str] = {}
"""Device and number of a pipe -> the file that has what was written to it."""


def is_pipe(path: str) -> bool:
    """Whether a path can be read once alone, or has a name that says nothing, as stdin's."""
    if path in STDIN or _OPEN_FILES.fullmatch(path):
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def save_pipe(path: str, role: str) -> str:
    """A file with what a pipe gives; it is removed when the process ends.

    A pipe that was read is not waited for again, unless somebody writes to it anew.

    Args:
        path: A pipe, as `is_pipe` says.
        role: `rankings`, `labels` ...; the file is called so.

    Raises:
        InputError: If nobody writes to it, or nothing, or it is closed.
        EngineError: If there is no room to keep it.
    """
    try:
        source = os.dup(0) if path in STDIN else os.open(path, os.O_RDONLY | _NONBLOCK)
        state = os.fstat(source)
        with open(source, "rb", buffering=0) as pipe:
            if stat.S_ISREG(state.st_mode):  # stdin from a file: no copy, but a name
                return _linked(path, role, pipe)
            key = (state.st_dev, state.st_ino)
            start = _awaited(pipe, path, role, PATIENCE if key not in _KEPT else 0.0)
            if start or key not in _KEPT:
                _KEPT[key] = _copied(start, pipe, path, role)
            return _KEPT[key]
    except OSError as error:
        raise InputError(f"{role}: {path!r} cannot be read: {error.strerror}") from None


_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


@cache
def _folder() -> str:
    """The folder of the files, which is removed at the end of the process that made it."""
    folder, process = tempfile.mkdtemp(prefix="sqlmetrics_pipes_"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _linked(path: str, role: str, file: IO[bytes]) -> str:
    """A name with the right ending for a file that is open."""
    start = os.pread(file.fileno(), LOOKED_AT, 0)
    if not start:
        raise InputError(f"{role}: {path!r} is empty")
    return _named(start, role, lambda target: os.symlink(_open_file(path), target))


def _open_file(path: str) -> str:
    return "/dev/stdin" if path == "-" else path


def _awaited(pipe: IO[bytes], path: str, role: str, patience: float) -> bytes:
    """The first bytes, once there are some: none if nobody writes for so long.

    Raises:
        InputError: If nobody was there to write at all.
    """
    os.set_blocking(pipe.fileno(), False)
    end = time.monotonic() + patience
    while True:
        start = pipe.read(LOOKED_AT)
        if start is None:  # somebody has it open, and has written nothing yet
            os.set_blocking(pipe.fileno(), True)
            return pipe.read(LOOKED_AT)
        if start or path in STDIN or _OPEN_FILES.fullmatch(path):
            os.set_blocking(pipe.fileno(), True)
            return start
        if time.monotonic() >= end:
            if patience:
                raise InputError(f"{role}: no process writes to the pipe {path!r}")
            return b""
        time.sleep(0.02)


def _copied(start: bytes, pipe: IO[bytes], path: str, role: str) -> str:
    """A file with all that comes."""
    if not start:
        raise InputError(f"{role}: the pipe {path!r} is empty")
    while len(start) < LOOKED_AT and (chunk := pipe.read(LOOKED_AT)):
        start += chunk

    def write(target: str) -> None:
        with storing(path, target) as file:
            file.write(start)
            shutil.copyfileobj(pipe, file, 2**20)

    return _named(start, role, write)


@contextmanager
def storing(path: str, target: str) -> Iterator[IO[bytes]]:
    """A file that is filled with what another gives.

    Args:
        path: The other, for a message.
        target: The file.

    Raises:
        EngineError: If there is no room to keep it.
    """
    try:
        with open(target, "wb") as file:
            yield file
    except OSError as error:
        folder = os.path.dirname(target)
        raise EngineError(
            f"cannot store the data of {path!r} in {folder!r}: {error.strerror}; set TMPDIR "
            "to a folder with more space"
        ) from None


def new_file(name: str) -> str:
    """A path in a folder of its own, which is removed when the process ends."""
    return str(Path(tempfile.mkdtemp(dir=_folder())) / name)


def _named(start: bytes, role: str, make: Callable[[str], None]) -> str:
    """A new file, called by what it is for and ending in its format."""
    path = new_file(f"{role}{ending(start)}")
    make(path)
    return path


def ending(start: bytes) -> str:
    r"""The end of the name of a file that begins with some bytes; empty for TREC.

    >>> ending(b"query_id,item_id\n1,2"), ending(b"q1 0 d1 1\n")
    ('.csv', '')
    >>> ending(b'{"a": 1}'), ending(b"PAR1")
    ('.json', '.parquet')
    """
    kind = kind_of(start)
    if kind == PARQUET:
        return ".parquet"
    if kind == GZIP:
        inner = ending(_unpacked(start))
        return f"{inner}.gz"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")):
        return ".json"
    return "" if _is_trec(text) else ".csv"


def _unpacked(start: bytes) -> bytes:
    import zlib

    try:
        return zlib.decompressobj(wbits=31).decompress(start, LOOKED_AT)
    except zlib.error:
        return b""


def _is_trec(text: bytes) -> bool:
    """Whether the first line behind comments is one of a run or of qrels, and no header.

    The name of a run may have blanks.
    """
    rows = filter(None, (line.split() for line in text.splitlines()))
    fields = next((row for row in rows if not row[0].startswith(b"#")), [])
    numbers = {6: (3, 4), 4: (3,)}.get(min(len(fields), 6), ())
    return bool(numbers) and all(_NUMBER.fullmatch(fields[index]) for index in numbers)


# Files packed by xz, bzip2, zstd or zip, which DuckDB does not read: unpacked once into a folder.
#
# A glob may not lead to them; each file is named. gzip needs none of this.

_UNPACKED: dict[tuple[str, int, int], str] = {}
"""Path, time and size of a packed file -> the file that has what was in it."""


def is_packed(path: str) -> bool:
    """Whether a path leads to a packed file, by its name."""
    return Path(path).suffix.casefold() in _OPENERS and os.path.isfile(path)


def unpack(path: str, role: str) -> str:
    """A file with what is in a packed one; it is removed when the process ends.

    Args:
        path: A packed file, as `is_packed` says.
        role: `rankings`, `labels` ...

    Raises:
        InputError: If it is empty, broken, or holds more than one file.
        EngineError: If there is no room to keep it.
    """
    note_read(path)
    state = os.stat(path)
    key = (os.path.abspath(path), state.st_mtime_ns, state.st_size)
    if key not in _UNPACKED:
        _UNPACKED[key] = _unpacked_file(path, role)
    return _UNPACKED[key]


def _unpacked_file(path: str, role: str) -> str:
    ending = Path(path).suffix.casefold()
    try:
        with _OPENERS[ending](path) as packed:
            target = new_file(Path(packed.name if ending == ".zip" else path[: -len(ending)]).name)
            with storing(path, target) as unpacked:
                for chunk in _chunks(packed):
                    unpacked.write(chunk)
    except ValueError as error:
        raise InputError(f"{role}: {path!r} {error}") from None
    if not os.path.getsize(target):
        raise InputError(f"{role}: the file in {path!r} is empty")
    return target


def _chunks(packed: IO[bytes]) -> Iterator[bytes]:
    """What is in a packed file.

    Raises:
        ValueError: If it cannot be unpacked; each library has an error of its own for that.
    """
    try:
        while chunk := packed.read(2**20):
            yield chunk
    except Exception as error:
        raise ValueError(f"cannot be unpacked: {error}") from None


def _open_zip(path: str) -> IO[bytes]:
    """The one file of an archive.

    Raises:
        ValueError: If it has none, or several.
    """
    import zipfile  # it takes as long as a tenth of an evaluation of two small files

    try:
        with zipfile.ZipFile(path) as archive:
            names = [member.filename for member in archive.infolist() if not member.is_dir()]
            if len(names) == 1:
                return archive.open(names[0])
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError) as error:
        raise ValueError(f"cannot be unpacked: {error}") from None
    several = f"{len(names):,} files, like {names[0]!r}" if names else "no file"
    raise ValueError(f"holds {several}; unpack it, and give one file")


def _open_xz(path: str) -> IO[bytes]:
    import lzma

    return lzma.open(path)


def _open_bz2(path: str) -> IO[bytes]:
    import bz2

    return bz2.open(path)


def _open_zstd(path: str) -> Any:
    import pyarrow as pa

    return pa.input_stream(path, compression="zstd")


_OPENERS: dict[str, Callable[[str], Any]] = {
    ".xz": _open_xz,
    ".bz2": _open_bz2,
    ".zst": _open_zstd,
    ".zip": _open_zip,
}

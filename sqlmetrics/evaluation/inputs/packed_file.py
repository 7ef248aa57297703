"""Files packed by xz, bzip2, zstd or zip, which DuckDB does not read: unpacked once into a folder.

A glob may not lead to them; each file is named. gzip needs none of this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.pipes import new_file, storing

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
        _UNPACKED[key] = _unpacked(path, role)
    return _UNPACKED[key]


def _unpacked(path: str, role: str) -> str:
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

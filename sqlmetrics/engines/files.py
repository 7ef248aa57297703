"""Files that are written: whole or not at all, and one sentence where they cannot be."""

from __future__ import annotations

import os
import platform
import re
import secrets
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlmetrics.errors import EngineError, SpecError

OLD = 86_400.0
"""A file that was last written so many seconds ago is written by nobody."""


@contextmanager
def writing(
    path: str | Path, kind: type[SpecError] | type[EngineError] = SpecError
) -> Iterator[None]:
    """Tell in one sentence if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise kind(f"cannot write {str(path)!r}: {error.strerror}") from None


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
        os.replace(beside, file)
    finally:
        for leftover in (beside, beside.with_name(f"{beside.name}.wal")):  # which DuckDB may leave
            with suppress(OSError):
                leftover.unlink()


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

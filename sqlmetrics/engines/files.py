"""Files that are written: whole or not at all, and one sentence where they cannot be."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlmetrics.errors import EngineError, SpecError


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
    """A path beside a file: what is written there takes the file's place in one step."""
    beside = file.with_name(f".{file.stem}.{secrets.token_hex(4)}{file.suffix}")
    try:
        yield beside
        os.replace(beside, file)
    finally:
        for leftover in (beside, beside.with_name(f"{beside.name}.wal")):  # which DuckDB may leave
            with suppress(OSError):
                leftover.unlink()

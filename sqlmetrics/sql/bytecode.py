"""Templates as Jinja compiled them, kept where Python keeps its own modules: in `__pycache__`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache


class Bytecode(BytecodeCache):
    """One file a template; Jinja looks by the text's hash whether it is still the one.

    Where nothing may be written (`PYTHONDONTWRITEBYTECODE`, a folder of the system) templates are
    compiled each time, as Python's modules are.

    Args:
        folder: The folder of the templates.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, bucket: Bucket) -> str:
        return cache_from_source(str(self._folder / f"{bucket.key}.py"))

    def load_bytecode(self, bucket: Bucket) -> None:
        """What is kept of a template, if anything is."""
        with (
            suppress(OSError, ValueError, EOFError, TypeError),
            open(self._file(bucket), "rb") as file,
        ):
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep it, seen by others only when it is whole."""
        if sys.dont_write_bytecode:
            return
        cache_file = self._file(bucket)
        part = f"{cache_file}.{os.getpid()}"
        with suppress(OSError):
            os.makedirs(os.path.dirname(cache_file), exist_ok=True)
            with open(part, "wb") as file:
                bucket.write_bytecode(file)
            os.replace(part, cache_file)

"""What an export is made for: the spec, the database that is read, and what was said besides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlmetrics.spec.source import REMOTE
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import Dialect


@dataclass(frozen=True)
class Target:
    """What every format is given; the same target gives the same bytes.

    Attributes:
        spec: What is asked, with its `output`.
        dialect: Of the database in which the other tool finds its tables.
        options: What was said for this format alone: option -> text, as `Format.options` has them.
        folder: Where the other tool runs; None for where this program does.
    """

    spec: Spec
    dialect: Dialect
    options: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def path_of(self, file: str) -> str:
        """A file's path as it is from that folder; a URL or an absolute path as it is."""
        if self.folder is None or file.startswith(REMOTE) or os.path.isabs(file):
            return file
        return os.path.relpath(file, os.path.realpath(self.folder)).replace(os.sep, "/")

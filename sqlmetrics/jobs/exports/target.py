"""What an export is made for: the spec, the database that is read, and what was said besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import Dialect


@dataclass(frozen=True)
class Target:
    """What every format is given; the same target gives the same bytes.

    Attributes:
        spec: What is asked, with its `output`.
        dialect: Of the database in which the other tool finds its tables.
        options: What was said for this format alone: option -> text, as `Format.options` has them.
    """

    spec: Spec
    dialect: Dialect
    options: Mapping[str, str] = field(default_factory=dict)

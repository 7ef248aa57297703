"""`track.yml`: where uploads and labels are, what an upload must be, and what the page shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from sqlmetrics.engines.output_files import note_read
from sqlmetrics.engines.yaml_file import read_yaml
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.source import Model, resolve_file
from sqlmetrics.spec.spec import Spec, sentences

NAMING = "[A-Za-z0-9][A-Za-z0-9._+=-]{0,63}"
"""What a run may be called, if nobody says otherwise."""

Count = Annotated[int, Field(ge=1)]


class Limits(Model):
    """What an upload may be, and how many of a team are accepted."""

    depth: Count = 1_000
    """So many items may a list have."""
    megabytes: Count = 100
    """So large may a file be, unpacked too."""
    uploads_per_team: Count | None = None
    """So many uploads of a team are accepted."""
    uploads_per_day: Count | None = None
    """So many of a team on a day (UTC)."""
    closes: datetime | None = None
    """What is uploaded from then on is refused; UTC, if it says no zone."""

    @field_validator("closes")
    @classmethod
    def _utc(cls, closes: datetime | None) -> datetime | None:
        if closes is None:
            return None
        return closes.astimezone(UTC) if closes.tzinfo else closes.replace(tzinfo=UTC)


class Public(Model):
    """What the page shows."""

    decimals: Annotated[int, Field(ge=1, le=9)] = 3
    """Values are rounded to so many decimals wherever they are written."""
    show: Literal["runs", "teams"] = "runs"
    """All runs, or the best run of each team."""


class TrackFile(Model):
    """A track: one shared task."""

    version: Literal[1] = 1
    """The version of this format."""
    track: str
    """The title."""
    uploads: str = "uploads"
    """The folder of uploads: `uploads/<team>/<run>.txt`."""
    labels: str
    """The file of labels, which stay hidden."""
    topics: str | None = None
    """A file of the topics that each run must answer, one per line; by default those of the
    labels."""
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    """The metrics; the first one orders the page."""
    preset: str = "house"
    """The conventions of the metrics."""
    conventions: Mapping[str, Any] = {}
    """Single conventions that differ from the preset."""
    naming: str = NAMING
    """A regular expression: what a run may be called."""
    run_tag: Literal["same", "any"] = "same"
    """Whether the sixth field of a line must be the name of the file."""
    upload_time: Literal["first_seen", "modified"] = "first_seen"
    """When a file counts as uploaded."""
    limits: Limits = Limits()
    """What an upload may be."""
    public: Public = Public()
    """What the page shows."""
    reports: str = "reports"
    """The folder of the reports to teams, and of the ledger."""

    @field_validator("metrics", mode="before")
    @classmethod
    def _listed(cls, metrics: object) -> object:
        return (metrics,) if isinstance(metrics, str) else metrics

    @field_validator("naming")
    @classmethod
    def _pattern(cls, naming: str) -> str:
        try:
            re.compile(naming)
        except re.error as error:
            raise ValueError(f"is no regular expression ({error})") from None
        return naming

    @classmethod
    def read(cls, path: str | Path) -> TrackFile:
        """Read a track; the files and folders that it names start from its own folder.

        Raises:
            SpecError: If it cannot be read, a key or value is wrong, or a metric is unknown.
        """
        values = {str(k): v for k, v in read_yaml(path, f"the track {str(path)!r}").items()}
        for name in ("uploads", "labels", "topics", "reports"):
            if isinstance(values.get(name, cls.model_fields[name].default), str):
                file = values.get(name, cls.model_fields[name].default)
                values[name] = resolve_file(path, file)
        try:
            track_file = cls(**values)
        except ValidationError as error:
            raise SpecError(sentences(error, model=cls)) from None
        spec = track_file.spec
        if not spec.settings(spec.measures[0]).is_mean:
            raise SpecError(
                f"metrics: the first one orders the runs, but {spec.measures[0]} is no mean of "
                "topics; put another one before it"
            )
        note_read(track_file.uploads)
        return track_file

    @property
    def spec(self) -> Spec:
        """What is evaluated, for the words of its metrics."""
        return Spec(
            name="track",
            rankings={"file": "runs.txt"},
            labels={"file": self.labels},
            metrics=self.metrics,
            preset=self.preset,
            conventions=dict(self.conventions),
        )

    @property
    def ledger(self) -> Path:
        """The file that remembers all uploads."""
        return Path(self.reports) / "uploads.csv"

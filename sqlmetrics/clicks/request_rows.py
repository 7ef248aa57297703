"""What is kept of a request: how much was logged, between which positions, of whom, its query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlmetrics.clicks.columns import SESSION, Names
from sqlmetrics.spec.click_log import RANKINGS, Clicks
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column
from sqlmetrics.sql.template import identifier, lines

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.engines.database import Database

KEYS = ("request_id", "item_id", "position")
"""What an impression must have."""


QUERY_TEXT = "query_text"
"""What was asked."""


@dataclass(frozen=True)
class RequestRows:
    """The columns of `logged_requests`, one row per request.

    Attributes:
        clicks: What was said of the log.
        names: What its columns are called.
        is_hashed: Whether rows are told apart by hashes.
    """

    clicks: Clicks
    names: Names
    is_hashed: bool = False

    @property
    def facts(self) -> list[str]:
        """What is known of a request beside its items, the least of several texts."""
        session = [SESSION] * self.names.has_sessions
        return [*["metric_date"] * self.clicks.daily, "system", *session, *self.names.segments]

    @property
    def may_divide(self) -> bool:
        """Whether the rows of a request may be of several lists, or of none."""
        return bool(self._one_list)

    @property
    def _texts(self) -> list[str]:
        """The facts that all rows of a list share as a rule."""
        systems = ["system"] * ("system" in self.names.impressions)
        return [*systems, *(fact for fact in self.facts if fact not in ("metric_date", "system"))]

    @property
    def _one_list(self) -> list[str]:
        """What the rows of a request meet that is one list of a system and a day."""
        has_systems, daily = "system" in self.names.impressions, self.clicks.daily
        of_system = ["count(system) = count(*)", "min(system) = max(system)"] * has_systems
        if self.is_hashed:
            # Rows without a system have a hash of their own.
            of_system = ["any_value(system) is not null"] * has_systems
            of_system += ["min(texts_hash) = max(texts_hash)"] * bool(self._texts)
        return [*of_system, *["min(metric_date) is not null"] * daily]

    def _fact(self, name: str) -> Column:
        """A fact of a request in order; where texts differ, DuckDB looks at it again."""
        is_one = self.is_hashed and name != "metric_date"
        return Column(f"{'any_value' if is_one else 'min'}({name})", name)

    @property
    def view(self) -> Mapping[str, Any]:
        """What the template of the stage prints."""
        between = "\n                and "
        conditions = [f"{key} is not null" for key in KEYS]
        counts = {"n_shown": between.join(conditions)}
        if "impressions" in self.names.read:
            counts = {"n_whole": counts["n_shown"]}
            counts["n_shown"] = between.join([*conditions, "is_unread = 0"])
        starts = ["shown_at"] if self.clicks.evaluation else []
        return {
            "counts": counts,
            "one_list": self._one_list,
            "facts": [
                *(Column(f"min({name})", "started_at") for name in starts),
                *map(self._fact, self.facts),
            ],
            "hashed": self._texts if self.is_hashed else [],
        }

    @property
    def counts(self) -> list[str]:
        """The columns that count the rows of a request, the wider first."""
        has_whole = "impressions" in self.names.read
        return ["n_logged", *["n_whole"] * has_whole, "n_shown"]

    @property
    def left_out(self) -> Mapping[str, str]:
        """Why rows of a request are left out by themselves -> how many, as SQL."""
        reasons = ["incomplete", *["unreadable time"] * (len(self.counts) - 2)]
        pairs = zip(reasons, self.counts[:-1], self.counts[1:], strict=True)
        return {reason: f"{before} - {after}" for reason, before, after in pairs}


def request_columns(spec: Spec, keys: Iterable[str]) -> list[str]:
    """The query's text and the segments that a click log has; none of another spec.

    Args:
        spec: What is asked; a segment that is called as one of its metrics is left out.
        keys: The keys of the table, likewise.
    """
    columns = spec.clicks.columns if spec.clicks else None
    if columns is None:
        return []
    used_names = {
        name.casefold() for name in (*keys, *(measure.column for measure in spec.measures))
    }
    candidates = (*[QUERY_TEXT] * (columns.query is not None), *columns.segments)
    return [name for name in dict.fromkeys(candidates) if name.casefold() not in used_names]


def of_requests(names: Iterable[str], key: str = "query_id") -> str:
    """A `select` of these columns, one row a request, while the log's lists are there.

    Args:
        names: The columns.
        key: What the request is called.
    """
    value_columns = [Column(f"min({identifier(name)})", name) for name in names]
    columns = lines([Column("query_id", key), *value_columns])
    return f"select\n    {columns}\nfrom {RANKINGS}\ngroup by query_id"


def with_requests(per_query: pa.Table, spec: Spec, engine: Database) -> pa.Table:
    """A table of one row per request with these columns.

    Args:
        per_query: The table.
        spec: What was asked.
        engine: Where the log's lists are.
    """
    names = request_columns(spec, per_query.column_names)
    if not names:
        return per_query
    return per_query.join(engine.table(of_requests(names)), keys="query_id")

"""What a user says of interleaved lists: how two systems' lists became the one that was shown."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from sqlmetrics.spec.click_columns import SourceRankings
from sqlmetrics.spec.source import Model

TEAM_DRAFT = "team_draft"
"""The method that needs no rankings."""


class ClickInterleaving(Model):
    """How the lists of two systems were merged, and how clicks are credited."""

    method: Literal["team_draft", "balanced", "debiased_balanced"] = "team_draft"
    """`team_draft`: a click is the system's that picked the item, which `columns.team` of the
    impressions names. `balanced`: the systems took turns, and each has the clicks as far down its
    list as the last one. `debiased_balanced`: they took turns too, and a click counts by how
    likely its item is looked at in the list of each; needs propensities."""
    rankings: SourceRankings | None = None
    """The lists before the merge; not for `team_draft`."""
    baseline: str | None = None
    """The system that the other is compared to; by default the one called control, prod, old or the
    like, else the first in the alphabet."""

    @model_validator(mode="after")
    def _of_its_method(self) -> ClickInterleaving:
        if self.method == TEAM_DRAFT and self.rankings is not None:
            raise ValueError(
                f"rankings: method {TEAM_DRAFT} does not use them; leave them out and name "
                "columns.team"
            )
        if self.method != TEAM_DRAFT and self.rankings is None:
            raise ValueError(f"method {self.method} needs rankings, the lists before the merge")
        return self

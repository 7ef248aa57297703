"""What a notebook shows of a result: tables, and charts where the extra `report` is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Display(ABC):
    """A result that shows itself in a notebook; a subclass has the tables."""

    @abstractmethod
    def tables(self) -> str:
        """Its tables as HTML."""

    def _repr_html_(self) -> str:
        from sqlmetrics.comparison.page.notebook import drawings

        return drawings(self) + self.tables()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        from sqlmetrics.comparison.page.notebook import bundle

        return bundle(self)

"""What a notebook shows of a result: tables, and charts where the extra `report` is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from importlib import import_module
from typing import Any

PAINTER = "sqlmetrics.comparison.page.notebook"
"""Who draws: a module of a room above, which is loaded when a notebook asks and not before."""


class Text(str):
    """A text of several lines that shows itself as it is, in a notebook and at a prompt."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class Display(ABC):
    """A result that shows itself in a notebook; a subclass has the tables."""

    @abstractmethod
    def tables(self) -> str:
        """Its tables as HTML."""

    def _repr_html_(self) -> str:
        return str(import_module(PAINTER).drawings(self)) + self.tables()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = import_module(PAINTER).bundle(self)
        return bundle

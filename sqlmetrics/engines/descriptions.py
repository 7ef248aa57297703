"""What tables look like, asked of the database once while they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager


class Descriptions(ABC):
    """A database that remembers columns while its tables are taken not to change."""

    _known: dict[str, dict[str, str]] | None = None

    @abstractmethod
    def describe(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM, as the database tells them now.

        Raises:
            InputError: If it cannot be read.
        """

    def columns(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM.

        Raises:
            InputError: If it cannot be read.
        """
        if self._known is None:
            return self.describe(source)
        if source not in self._known:
            self._known[source] = self.describe(source)
        return self._known[source]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While the block lasts no table changes, so each is described once."""
        outer = self._known
        self._known = {} if outer is None else outer
        try:
            yield
        finally:
            self._known = outer

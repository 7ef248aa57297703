"""A YAML file that somebody else may have written: its size, depth and aliases are bounded."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlmetrics.engines.output_files import note_read
from sqlmetrics.engines.url import nearest_file
from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    import yaml

LARGEST = 1_000_000
"""As many bytes a file may have."""
DEEPEST = 50
"""As many lists and mappings may stand in one another."""
MOST = 100_000
"""As many values a file may have, where what an alias repeats counts each time."""


def read_yaml(path: str | Path, label: str, *, has_secrets: bool = False) -> dict[Any, Any]:
    """The mapping in a YAML file, as the safe loader reads it; a key stands in it once.

    Args:
        path: The file.
        label: What it is, as a message calls it: `the spec 'a.yml'`.
        has_secrets: Whether a password may stand in it, so that no message may quote it.

    Raises:
        SpecError: If it cannot be read, is no YAML, is too large or too deep, or no mapping.
    """
    note_read(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        near = nearest_file(str(path)) if isinstance(error, FileNotFoundError) else ""
        raise SpecError(f"cannot read {label}: {error.strerror}{near}") from None
    if len(content) > LARGEST:
        raise SpecError(f"{label} is larger than {LARGEST:,} bytes")
    try:
        values = _values(content, has_secrets)
    except _UnreadableError as error:
        problem = f": {error}" if str(error) else ""
        raise SpecError(f"{label}{error.place} is not YAML{problem}") from None
    if not isinstance(values, dict):
        raise SpecError(f"{label} must be a mapping of keys to values")
    return values


_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE
)
"""How JSON, which is YAML too, writes a character that has more than 16 bits."""


def _of_pair(match: re.Match[str]) -> str:
    """The same as YAML writes it."""
    high, low = (int(match[group], 16) for group in (2, 3))
    return f"{match[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08X}"


class _UnreadableError(Exception):
    """Raised if a text is no YAML, or more of it than is read.

    Attributes:
        place: Where in the file, as it is told; empty if that is not known.
    """

    def __init__(self, problem: object, mark: yaml.Mark | None = None) -> None:
        self.place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        super().__init__(problem)


def _values(content: bytes, has_secrets: bool) -> Any:
    """What a text says; PyYAML's own words on it quote the text."""
    import yaml

    try:
        text = _PAIR.sub(_of_pair, content.decode("utf-8-sig"))
        return yaml.load(text, _loader())  # noqa: S506 (it is a safe one)
    except yaml.MarkedYAMLError as error:
        problem = "" if has_secrets else error.problem
        raise _UnreadableError(problem, error.problem_mark or error.context_mark) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _UnreadableError("" if has_secrets else error) from None
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        # PyYAML's own, of 2026-13-01, of `!!int ""` and the like
        raise _UnreadableError("" if has_secrets else f"a value cannot be read: {error}") from None


@cache
def _loader() -> type[yaml.SafeLoader]:
    """YAML's safe loader, with the bounds."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads what a person would write."""

        _depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            """A value, unless it is too deep: each level takes a few calls of Python."""
            self._depth += 1
            if self._depth > DEEPEST:
                raise _UnreadableError(
                    f"more than {DEEPEST} lists and mappings are nested",
                    self.peek_event().start_mark,  # type: ignore[no-untyped-call]
                )
            node = super().compose_node(parent, index)
            self._depth -= 1
            return node

        def get_single_node(self) -> Any:
            """The document, once it is known how large its aliases make it."""
            node = super().get_single_node()
            if node is not None and _count(node, {}) > MOST:
                raise _UnreadableError(f"it has more than {MOST:,} values", node.start_mark)
            return node

        def compose_mapping_node(self, anchor: Any) -> Any:
            """A mapping, unless it has a key twice."""
            node = super().compose_mapping_node(anchor)
            keys = Counter(key.value for key, _ in node.value if isinstance(key.value, str))
            twice = [key for key, times in keys.items() if times > 1]
            if twice:
                raise _UnreadableError(f"the key {twice[0]!r} appears twice", node.start_mark)
            return node

    return Loader


def _count(node: Any, counts: dict[int, int]) -> int:
    """How many values there are in a node, with those of its aliases.

    Args:
        node: A node as YAML's composer makes it: an alias is the node itself once more.
        counts: Counts of nodes that are done, by their id; 0 while a node is counted.
    """
    if id(node) in counts:
        if not counts[id(node)]:
            raise _UnreadableError("an alias contains itself", node.start_mark)
        return counts[id(node)]
    counts[id(node)] = 0
    children = () if isinstance(node.value, str) else node.value
    pairs = (child if isinstance(child, tuple) else (child,) for child in children)
    counts[id(node)] = 1 + sum(_count(part, counts) for pair in pairs for part in pair)
    return counts[id(node)]

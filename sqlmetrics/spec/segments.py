"""Segments that are no column: a condition with a name, or what the tables tell of a query."""

from __future__ import annotations

from collections.abc import Mapping

from sqlmetrics.sql.user_sql import condition

TRAFFIC, RELEVANT_LABELS, QUERY_LENGTH = "traffic", "relevant_labels", "query_length"

KINDS: Mapping[str, str] = {
    TRAFFIC: "head, torso, tail",
    RELEVANT_LABELS: "0, 1, 2-5, 6+",
    QUERY_LENGTH: "0, 1, 2, 3-4, 5+",
}
"""What can stand in place of a condition -> the values that the segment has then."""


def read_segments(value: object) -> object:
    """Segments by their names; a kind by itself is called so.

    Args:
        value: Name -> a condition or one of `KINDS`; or such kinds alone.

    Raises:
        ValueError: If a text is no condition.

    >>> read_segments(["traffic"]), read_segments({"new": "age < 7"})
    ({'traffic': 'traffic'}, {'new': 'age < 7'})
    """
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, list | tuple):
        wrong = [kind for kind in value if not (isinstance(kind, str) and kind in KINDS)]
        if wrong:
            raise ValueError(
                f"only {', '.join(KINDS)} need no name; give a condition a name, like new_users: "
                f"signup_days <= 7, given {wrong[0]!r}"
            )
        return {kind: kind for kind in value}
    if not isinstance(value, Mapping):
        return value
    condition_by_name: dict[object, object] = {}
    for name, text in value.items():
        is_condition = isinstance(text, str) and text not in KINDS
        condition_by_name[name] = _condition(name, text) if is_condition else text
    return condition_by_name


def _condition(name: object, text: str) -> str:
    try:
        return condition(text)
    except ValueError as error:
        raise ValueError(f"{name} {error}, or {', '.join(KINDS)}, given {text!r}") from None

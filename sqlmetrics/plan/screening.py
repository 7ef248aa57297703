"""What a pass over lists keeps of each, to tell if something may be wrong with it.

It misses nothing, and seldom suspects what is right: an exact look follows then.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.sql.stage import Column

LONGEST = 1024
"""Ranks beyond this one are suspects: a list has a bit for each rank."""


def hashed(item: str) -> str:
    """The hash of an item, of 32 bits: lists of those are sorted in half the time of others.

    Two items of a list have the same one in one of four billion pairs.
    """
    return f"cast(hash({item}) >> 32 as uinteger)"


def clues(item_hash: str, bad: str, rank: str = "") -> Iterator[Column]:
    """Columns of a stage with one row per list; `plan/list_checks` sums them up.

    Args:
        item_hash: The hash of a row's item; empty where no list can have one twice.
        bad: What rows meet that break a rule.
        rank: The expression of a row's rank, if it was given.
    """
    if item_hash:
        yield Column(f"list_sort(list({item_hash}))", "hashes")
    else:
        yield Column("count(*)", "n_items")
    yield Column(f"count(*) filter (where {bad})", "n_bad")
    if rank:
        rank_filter = f"filter (where {rank} between 1 and {LONGEST})"
        different = f"bit_count(bitstring_agg({rank}, 1, {LONGEST})\n    {rank_filter})"
        yield Column(f"max({rank}) = count(*)\n    and {different} = count(*)", "is_gapless")

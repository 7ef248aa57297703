"""What a pass over lists keeps of each, to tell if something may be wrong with it.

It misses nothing, and seldom suspects what is right: an exact look follows then.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.sql.stage import Column

LONGEST = 1024
"""Ranks beyond this one are suspects: a list has a bit for each rank."""


def clues(item: str, bad: str, rank: str = "") -> Iterator[Column]:
    """Columns of a stage with one row per list; `plan/screened` sums them up.

    Args:
        item: The expression of a row's item; empty where no list can have one twice. Hashes of
            32 bits are sorted in half the time of others; two items of a list have the same one
            in one of four billion pairs.
        bad: What rows meet that break a rule.
        rank: The expression of a row's rank, if it was given.
    """
    if item:
        yield Column(f"list_sort(list(cast(hash({item}) >> 32 as uinteger)))", "hashes")
    else:
        yield Column("count(*)", "n_items")
    yield Column(f"count(*) filter (where {bad})", "n_bad")
    if rank:
        within = f"filter (where {rank} between 1 and {LONGEST})"
        different = f"bit_count(bitstring_agg({rank}, 1, {LONGEST})\n    {within})"
        yield Column(f"max({rank}) = count(*)\n    and {different} = count(*)", "is_gapless")

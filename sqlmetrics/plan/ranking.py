"""The stage `ranked`: the items of a list get their ranks by a window over every row.

That is right for every metric, on every database; `ranking_by_lists` has what is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import case

OCCURRENCE = "occurrence"
"""The column that says which time an item comes up in its list, where that matters."""


@dataclass(frozen=True)
class WindowRanking:
    """Ranks by a window over every row.

    Attributes:
        shape: What the tables hold.
        needs: What the metrics need.
        rankings: The stage of the rankings, without duplicates.
        labels: That of the labels.
    """

    shape: Shape
    needs: Needs
    rankings: str
    labels: str

    counted: ClassVar[str] = "list_sums"
    """The stage with one row per list."""

    def stages(self) -> Iterator[Stage]:
        """From the two tables to one row per ranked item."""
        yield self.stage("ranked")

    def in_order(self, name: str, view: Mapping[str, Any], order: str) -> Stage:
        """A stage of all grades of a list or a query with their ranks in an order.

        Args:
            name: Its name.
            view: The `keys` of a list, what its rows come `from`, and the like.
            order: What sorts them.
        """
        rank = Column(f"row_number() over {Window(view['keys'], [order])}", "rnk")
        columns = [*view["keys"], "grade", *view["read"], rank]
        return Stage(name, "columns", {**view, "columns": columns})

    def stage(self, name: str) -> Stage:
        """The stage of a name."""
        view = {
            "columns": [*dict.fromkeys(self._ranking_columns()), *self._graded(), *self._ranks()],
            "rankings": self.rankings,
            "labels": self.labels,
            "on": self._on,
            "where": " and ".join(self._not_left_out()),
        }
        return Stage(name, "ranked", view)

    def _not_left_out(self) -> Iterator[str]:
        """The conditions of the items that are not left out."""
        options = self.shape.spec.options
        if options["unjudged"] == "condensed":
            yield f"{self.labels}.grade is not null"
        text = OPTIONS["identical_ids"].choice(options["identical_ids"]).sql
        if self.needs.border:
            yield self.needs.border.format(score=f"{self.rankings}.{self.shape.sorters[0]}")
        if text:
            query, item = (f"{self.rankings}.{name}" for name in ("query_id", "item_id"))
            yield text.format(item=item, query=query)

    @property
    def _on(self) -> list[str]:
        """What joins an item with its label: equalities alone, or DuckDB 1.4 tries each pair."""
        keys = (*self.shape.label_keys, "item_id")
        if not self.shape.numbers_repeats:
            return equal(self.labels, self.rankings, keys)
        item = f"{self.rankings}.item_id"
        first = f"case when {self.rankings}.{OCCURRENCE} = 1 then {item} end"
        return [
            *equal(self.labels, self.rankings, keys[:-1]),
            folded(f"{self.labels}.item_id = {first}", 60).replace("\n", "\n" + 8 * " "),
        ]

    def _ranking_columns(self) -> Iterator[Column]:
        """The columns of the rankings that later stages read."""
        tied_by = [self.shape.sorters[0]] if self.needs.rows.has_ties else []
        item = ["item_id"] if self.needs.reads_item else []
        for name in (*self.shape.keys, *self.shape.listed_facts, *tied_by, *item):
            yield Column(f"{self.rankings}.{name}", name)
        if self.needs.reads_score:
            yield self._score()

    def _score(self) -> Column:
        """What pairs of items are compared by: the higher, the better."""
        if "rank" in self.shape.columns["rankings"]:
            return Column(f"-{self.rankings}.given_rank", "score")
        return Column(f"{self.rankings}.score", "score")

    def _graded(self) -> Iterator[Column]:
        yield Column(f"coalesce({self.labels}.grade, 0e0)", "grade")
        for name in self.needs.label_columns:
            yield Column(f"{self.labels}.{name}", name)
        if self.needs.reads_judged:
            flag = f"case when {self.labels}.grade is null then 0e0 else 1e0 end"
            yield Column(flag, "judged")
        if self.needs.rows.in_pool:
            flag = f"case when {self.labels}.item_id is null then 0e0 else 1e0 end"
            yield Column(flag, "in_pool")

    def _ranks(self) -> Iterator[Column]:
        over = Window([f"{self.rankings}.{key}" for key in self.shape.keys], list(self._order()))
        yield Column(f"row_number() over {over}", "rnk")
        if self.needs.rows.tied_rnk:
            yield Column(f"rank() over {Window(over.partition, over.order[:1])}", "tied_rnk")
        running = Window(over.partition, over.order, "unbounded preceding")
        for name, hit in self.needs.rows.running_hits.items():
            flag = case(f"{self.labels}.{hit}", "1e0")
            yield Column(f"sum({flag}) over {running}", name)
        if self.needs.rows.best_above:
            above = Window(over.partition, over.order, "unbounded preceding", "1 preceding")
            yield Column(f"max({self.labels}.grade) over {above}", "best_above")

    def _order(self) -> Iterator[str]:
        for column in self.shape.order:
            if column.startswith("grade "):
                yield f"coalesce({self.labels}.{column.replace(' ', ', 0e0) ')}"
            else:
                yield f"{self.rankings}.{column}"
        if self.shape.numbers_repeats:
            yield f"{self.rankings}.{OCCURRENCE} asc"


# The stage `ranked` by lists instead of a window, on DuckDB.
#
# An item without a label adds nothing to most metrics but its place. So one row per list keeps
# the scores alone, and a labelled item's rank is found among them:
#
# - `SortedLists`: it is the place of its score among the sorted scores;
# - `CountedScores`: it follows from the number of better scores, where a list has few labels;
# - `GivenRanks`: it is known already.
#
# Where equal scores leave a rank open, or more items than a list was made for, the window ranks
# that list.

OPEN = "is_open"
"""The column of `list_ranks` that says if a rank is not known yet."""

GATHERED = "list_rows"
"""The stage in which the items of a list are beside each other."""


@dataclass(frozen=True)
class SortedLists(WindowRanking):
    """Ranks by the place of a score among the sorted ones of its list.

    Attributes:
        longest: The last rank that is told: the deepest cutoff, or that of the longest list.
            One more score is kept, to see if it equals the last.
        most: How many relevant items of a list are told apart at most.
        screened: Whether the lists are looked through for mistakes on the way.
        gathered: Whether the items of a list are brought together first, since they are
            scattered: what is kept of one list after the other stays in the processor's cache.
    """

    longest: int
    most: int
    screened: bool
    gathered: bool

    counted: ClassVar[str] = "list_arrays"
    """The stage with one row per list."""

    _keeps_all: ClassVar[bool] = True
    """Whether a rank is found among all items of a list."""

    _list: ClassVar[str] = "{best}({value}, {number})"
    """How some of them are kept."""

    def stages(self) -> Iterator[Stage]:
        """From the two tables to one row per labelled item, and one a list without any."""
        yield from self._list_stages()
        yield _chosen("list_ranks", _LIST_RANKS, self._list_ranks(), "list_labels", "materialized")
        yield from self._open_stages()
        names = [column.name for column in (*self._graded(), *self._ranks())]
        columns = _same(*self.shape.keys, *self.shape.listed_facts, *names)
        yield Stage("ranked", "ranks_of_lists", {"columns": columns, "keys": self.shape.keys})

    def in_order(self, name: str, view: Mapping[str, Any], order: str) -> Stage:
        """The same by lists of grades, which hold nothing else."""
        return Stage(name, "in_order", {**view, "order": order})

    def _list_stages(self) -> Iterator[Stage]:
        """One row per list, then one a labelled item of it."""
        if self.gathered:
            yield self._gathered_stage()
        yield self._listed_stage()
        if self.screened:
            view = {
                "lists": "list_arrays",
                "ranked": self._by == "given_rank",
                "keyed": False,
                "once": self.shape.holds_once,
                "hash_parts": hash_parts(),
            }
            yield Stage("list_checks", "list_checks", view)
        yield _chosen(
            "list_labels", "one row per labelled item of a list", self._unfolded(), "list_arrays"
        )

    def _open_stages(self) -> Iterator[Stage]:
        """The lists with a rank that is open, ranked by the window."""
        yield Stage("open_lists", "open_lists", {"keys": self.shape.keys, "open": OPEN})
        window_ranking = WindowRanking(self.shape, self.needs, "open_rankings", "open_labels")
        yield _in_open_lists(window_ranking.rankings, self.rankings, self.shape.keys)
        yield _in_open_lists(window_ranking.labels, self.labels, self.shape.label_keys)
        yield window_ranking.stage("window_ranks")

    @property
    def _on(self) -> list[str]:
        """The same without labels of grade 0, where they are as good as none: fewer are joined."""
        counts = [] if self.needs.reads_judged else [f"{self.labels}.grade <> 0"]
        return [*super()._on, *counts]

    @property
    def _by(self) -> str:
        """What sorts a list, before the rule for ties."""
        return self.shape.sorters[0]

    @property
    def _better(self) -> str:
        """How a value that comes before another compares with it."""
        return "<" if self.shape.order[0].endswith(" asc") else ">"

    def _gathered_stage(self) -> Stage:
        """The ranked items with their labels, the items of a list beside each other."""
        rankings = self.rankings
        names = [*self.shape.keys, *self.shape.listed_facts, self._by]
        names += ["is_suspect"] * self.screened
        columns = [Column(f"{rankings}.{name}", name) for name in names]
        columns += [Column(hashed(f"{rankings}.item_id"), "item_hash")] * self._hashes
        keys = ", ".join(f"{rankings}.{key}" for key in self.shape.keys)
        view = {
            "columns": [*columns, Column(f"{self.labels}.grade", "grade")],
            "rankings": rankings,
            "labels": self.labels,
            "on": self._on,
            # 16 bits: sorted in half the time of ids; the lists that share them fit into the cache
            "order": f"cast(hash({keys}) >> 48 as usmallint)",
        }
        return Stage(GATHERED, "list_rows", view)

    @property
    def _hashes(self) -> bool:
        """Whether a list may have an item twice, which is looked for."""
        return self.screened and not self.shape.holds_once

    def _listed_stage(self) -> Stage:
        table, labels = self.rankings, self.labels
        item_hash = hashed(f"{table}.item_id")
        if self.gathered:
            table, labels, item_hash = GATHERED, GATHERED, f"{GATHERED}.item_hash"
        value = f"{table}.{self._by}"
        labelled = f"filter (where {labels}.grade is not null)"
        columns = [Column(f"min({table}.{fact})", fact) for fact in self.shape.listed_facts]
        if self._keeps_all:
            columns.append(Column(self._kept(value, self.longest), f"{self._by}s"))
        for name, hit in self.needs.rows.running_hits.items():
            among = f"\n    filter (where {labels}.{hit})"
            top_values = self._kept(value, self.most)
            columns.append(Column(f"{top_values}{among}", f"{self._by}s_of_{name}"))
        columns += [
            Column(f"list({value})\n    {labelled}", f"labelled_{self._by}s"),
            Column(f"list({labels}.grade)\n    {labelled}", "grades"),
        ]
        if self.screened:
            rank = f"{table}.given_rank" if self._by == "given_rank" else ""
            bad = f"{table}.is_suspect"
            columns += clues(item_hash if self._hashes else "", bad, rank)
        view = {
            "about": _LISTED,
            "keys": [f"{table}.{key}" for key in self.shape.keys],
            "columns": columns,
            "from": table,
            "joins": {} if self.gathered else {labels: self._on},
            "where": "",
        }
        return Stage("list_arrays", "sums", view, "materialized" if self.screened else "")

    def _kept(self, value: str, number: int) -> str:
        """What is kept of the items of a list, of which so many are told apart."""
        best = "max" if self._better == ">" else "min"
        return self._list.format(value=value, best=best, number=number + 1)

    def _unfolded(self) -> Iterator[Column]:
        lists = [f"{self._by}s"] if self._keeps_all else []
        lists += [f"{self._by}s_of_{name}" for name in self.needs.rows.running_hits]
        yield from _same(*self.shape.keys, *self.shape.listed_facts, *lists)
        yield Column(f"unnest(coalesce(labelled_{self._by}s, [null]))", self._by)
        yield Column("unnest(coalesce(grades, [null]))", "label")

    def _list_ranks(self) -> Iterator[Column]:
        yield from self._place_columns()
        yield Column(self._is_open(), OPEN)

    def _place_columns(self) -> Iterator[Column]:
        yield from _same(*self.shape.keys, *self.shape.listed_facts)
        yield Column("coalesce(label, 0e0)", "grade")
        if self.needs.reads_judged:
            yield Column("case when label is null then 0e0 else 1e0 end", "judged")
        yield Column(self._rank(), "rnk")
        for name in self.needs.rows.running_hits:
            yield Column(self._hits_so_far(f"{self._by}s_of_{name}"), name)

    def _rank(self) -> str:
        return f"list_position({self._by}s, {self._by})"

    def _hits_so_far(self, hits: str) -> str:
        return f"list_position({hits}, {self._by})"

    def _is_open(self) -> str:
        """Whether an item's place is not its rank: another has its score, or it has no place."""
        deepest = self.needs.sums["list_sums"].deepest
        is_cut = deepest and deepest <= self.longest
        no_place = f"{self._by} is null"
        if not is_cut:
            no_place = f"coalesce(rnk > {self.longest}, true)"
        reasons = [
            f"coalesce({self._by}s[rnk + 1] = {self._by}, false)",
            f"label is not null and {no_place}",
        ]
        for name in self.needs.rows.running_hits:
            reasons.append(f"coalesce(len({self._by}s_of_{name}) > {self.most}, false)")
        return "\n    or ".join(reasons)


@dataclass(frozen=True)
class CountedScores(SortedLists):
    """Ranks by the number of better scores: nothing is sorted."""

    _list = "list({value})"

    def _rank(self) -> str:
        better = self._number(f"{self._by}s", self._better)
        return f"case when {self._by} is not null\n    then {better} + 1\nend"

    def _hits_so_far(self, hits: str) -> str:
        return self._number(hits, f"{self._better}=")

    def _number(self, values: str, sign: str) -> str:
        """How many of a list's values compare so with the item's own."""
        return f"len(list_filter({values}, lambda other: other {sign} {self._by}))"

    def _is_open(self) -> str:
        equals = self._number(f"{self._by}s", "=")
        return f"{equals} > 1\n    or label is not null and {self._by} is null"


@dataclass(frozen=True)
class GivenRanks(CountedScores):
    """Ranks as they were given, where they are 1, 2, ... n in every list."""

    _keeps_all = False

    def stages(self) -> Iterator[Stage]:
        """From the two tables to one row per labelled item, and one a list without any."""
        yield from self._list_stages()
        yield _chosen("ranked", _INPUT_RANKS, self._place_columns(), "list_labels")

    def _rank(self) -> str:
        return self._by


_LISTED = "one row per list: the scores of its items, and the items with a label"
_LIST_RANKS = "a rank is the place of a score; a list without a label has one row without a rank"
_INPUT_RANKS = "the ranks of the input; a list without a label has one row without a rank"


def _same(*names: str) -> list[Column]:
    """Columns that keep their names."""
    return [Column(name, name) for name in names]


def _in_open_lists(name: str, table: str, keys: Sequence[str]) -> Stage:
    """The rows of a table that belong to open lists: mostly none, and then none is read."""
    return Stage(name, "open", {"from": table, "keys": keys})


def _chosen(name: str, about: str, columns: Iterator[Column], table: str, hint: str = "") -> Stage:
    view = {"columns": list(columns), "from": table, "about": about, "where": ""}
    return Stage(name, "columns", view, hint)


LONGEST = 1024
"""Ranks beyond this one are suspects: a list has a bit for each rank."""


HASH_BITS = 32
"""Two items of a list have the same hash in one of four billion pairs."""

PART_BITS = {16: 8, 32: 11, 128: 13}
"""Lists of up to so many items -> how many bits of a hash tell most items of a list apart."""


def hashed(item: str) -> str:
    """The hash of an item, of 32 bits: lists of those are sorted in half the time of others."""
    return f"cast(hash({item}) >> {64 - HASH_BITS} as uinteger)"


def hash_parts() -> list[dict[str, Any]]:
    """How lists that may have an item twice are told: all that do, and few others.

    The `high` bits of a hash are the number of a bit that the item sets in a string, and so are
    its `low` ones: an item that is twice sets the same bit again in both. The hashes are sorted,
    which takes longer, only where both strings have fewer bits set than the list has items, and
    where a list is so long that two items that differ would share a bit in any case.
    """
    return [
        {
            "longest": longest,
            "high": f"hash >> {HASH_BITS - bits}",
            "low": f"hash & {2**bits - 1}",
            "last": 2**bits - 1,
        }
        for longest, bits in PART_BITS.items()
    ]


def clues(item_hash: str, bad: str, rank: str = "") -> Iterator[Column]:
    """What a pass over lists keeps of each, to tell if something may be wrong with it.

    It misses nothing, and seldom suspects what is right: an exact look follows then.
    `plan/list_checks` sums the columns up.

    Args:
        item_hash: The hash of a row's item; empty where no list can have one twice.
        bad: What rows meet that break a rule.
        rank: The expression of a row's rank, if it was given.
    """
    if item_hash:
        yield Column(f"list({item_hash})", "hashes")
    else:
        yield Column("count(*)", "n_items")
    yield Column(f"count(*) filter (where {bad})", "n_bad")
    if rank:
        rank_filter = f"filter (where {rank} between 1 and {LONGEST})"
        different = f"bit_count(bitstring_agg({rank}, 1, {LONGEST})\n    {rank_filter})"
        yield Column(f"max({rank}) = count(*)\n    and {different} = count(*)", "is_gapless")


# The stage `ranked` of a click log that tells the ranks of answered items, on DuckDB.
#
# A log that was cleaned tells at which rank of its list an answered item stood, wherever the items
# of a request stand at one position after the other. No item without a label is read then, and no
# list is joined with its labels; the window ranks the other lists.


@dataclass(frozen=True)
class ShownRanks(SortedLists):
    """Ranks as a click log tells them, and those of a window for lists of which it does not."""

    counted: ClassVar[str] = "list_sums"

    def stages(self) -> Iterator[Stage]:
        """From the log to one row per labelled item, and one a list without any."""
        keys = self.shape.label_keys
        yield self.shape.shown_ranks(list(self._log_columns()))
        yield self._other_lists()
        yield Stage("open_rankings", "open", {"from": self.rankings, "keys": keys})
        yield Stage("open_labels", "open", {"from": self.labels, "keys": keys})
        if self.screened:
            yield Stage("list_checks", "open_checks", {})
        window_ranking = WindowRanking(self.shape, self.needs, "open_rankings", "open_labels")
        yield window_ranking.stage("window_ranks")
        names = [
            *self.shape.keys,
            *self.shape.listed_facts,
            *(column.name for column in self._log_columns()),
        ]
        columns = [Column(name, name) for name in names]
        yield Stage("ranked", "both_ranks", {"columns": columns, "from": "shown_ranks"})

    def in_order(self, name: str, view: Mapping[str, Any], order: str) -> Stage:
        """The same by a window: the labels of a request are too few for a list to pay."""
        return WindowRanking.in_order(self, name, view, order)

    def _other_lists(self) -> Stage:
        """The requests of the lists that the log does not vouch for."""
        lists = self.shape.at.shown_lists
        view = {
            "about": "irregular requests: a window ranks their lists",
            "columns": [Column("request_id", "query_id")],
            "from": lists.other_requests if lists else "",
            "where": "",
        }
        return Stage("open_lists", "columns", view)

    def _log_columns(self) -> Iterator[Column]:
        """What the log tells of a rank beside its list."""
        yield Column("coalesce(grade, 0e0)", "grade")
        if self.needs.reads_judged:
            yield Column("case when grade is null then 0e0 else 1e0 end", "judged")
        yield Column("rnk", "rnk")
        down = Window(["query_id"], ["rnk"], "unbounded preceding")
        for name, hit in self.needs.rows.running_hits.items():
            yield Column(f"sum({case(hit, '1e0')}) over {down}", name)

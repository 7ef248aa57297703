"""The stages from the tables to the lists, once in the order of every rule for equal scores.

rankings ─┬> item_scores ─┬> orders   one row per item and rule, with its rank
labels ───┘               └> scores   the same with its score, for what compares scores
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.plan.border import reaches
from sqlmetrics.plan.shape import Shape
from sqlmetrics.proof.reconcile.worlds import Evaluations, Rule
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import identifier, literal

WORST_FIRST = "worst_first"
"""The order of a list that is sorted the wrong way round, where a rule has the name of `ties`."""


@dataclass(frozen=True)
class Lists:
    """The lists by every rule.

    Attributes:
        shape: The tables as they are given; with their order, if they have one.
        worlds: What reads them.
        compares: Whether the metric compares the scores of items.
    """

    shape: Shape
    worlds: Sequence[Evaluations]
    compares: bool

    def stages(self) -> Iterator[Stage]:
        """All of them."""
        yield from map(self._raw, self.shape.stages())
        if self.labels == "unique_labels":
            keys = (*self.shape.label_keys, "item_id")
            best = [Column("max(grade)", "grade")]
            view = {"keys": keys, "best": best, "from": self.shape.names["labels"]}
            view["row"] = "query and item"
            yield Stage(self.labels, "unique", view)
        yield self._scored_stage()
        for name in dict.fromkeys(map(self.source, self.worlds)):
            yield self._rules_stage(name)

    def source(self, world: Evaluations) -> str:
        """The stage with the lists of a world."""
        return "scores" if self.by_score(world) else "orders"

    def by_score(self, world: Evaluations) -> bool:
        """Whether a world needs the scores, not one order of them."""
        return (world.all_orders or self.compares) and not self.has_ranks

    @property
    def labels(self) -> str:
        """The stage of the labels, without duplicates."""
        merges = self.shape.spec.options["duplicate_labels"] == "max_grade"
        return "unique_labels" if merges or self.shape.has_groups else self.shape.names["labels"]

    @property
    def grouped_labels(self) -> str:
        """The stage of the labels that the evaluations read: with their groups, if it has some."""
        return self.shape.names["labels"] if self.shape.has_groups else self.labels

    @property
    def has_ranks(self) -> bool:
        """Whether the lists have ranks, not scores."""
        return "rank" in self.shape.columns["rankings"]

    @property
    def _keys(self) -> list[str]:
        return [key for key in self.shape.keys if key != "system"]

    def _raw(self, stage: Stage) -> Stage:
        """The scores as they are: every precision reads them itself."""
        if stage.name != self.shape.names["rankings"] or self.has_ranks:
            return stage
        score = Column(identifier(self.shape.columns["rankings"]["score"]), "score")
        columns = [score if column.name == "score" else column for column in stage.view["columns"]]
        return Stage(stage.name, stage.template, {**stage.view, "columns": columns})

    def _scored_stage(self) -> Stage:
        rankings = self.shape.names["rankings"]
        carried = [*self._keys, "item_id", *self.shape.listed_facts]
        carried += [name for name in ("given_rank", "input_order") if name in self.shape.sorters]
        columns = [Column(f"{rankings}.{name}", name) for name in carried]
        for precision in self._precisions:
            text = OPTIONS["score_precision"].choice(precision).sql
            columns.append(Column(text.format(score=f"{rankings}.score"), f"score_{precision}"))
        columns.append(Column(f"coalesce({self.labels}.grade, 0e0)", "grade"))
        on = equal(self.labels, rankings, (*self.shape.label_keys, "item_id"))
        view = {"columns": columns, "rankings": rankings, "labels": self.labels, "on": on}
        return Stage("item_scores", "proof/item_scores", view)

    @cached_property
    def _precisions(self) -> list[str]:
        if self.has_ranks:
            return []
        rules = (rule for world in self.worlds for rule in world.rules)
        return list(dict.fromkeys(precision for _, precision in rules))

    def _rules_stage(self, name: str) -> Stage:
        rule_sets = (world.rules for world in self.worlds if self.source(world) == name)
        rules = dict.fromkeys(rule for rules in rule_sets for rule in rules)
        about = "the lists in the order of each rule for equal scores"
        sorter = self._rank
        if name == "scores":
            about = "the lists with their scores as each precision has them"
            sorter = self._score
        names = (*self._keys, "item_id", *self.shape.listed_facts)
        carried = [Column(name, name) for name in names]
        selects = [
            [Column(literal(name_of(rule)), "rule"), *carried, sorter(rule)] for rule in rules
        ]
        return Stage(name, "proof/orders", {"rules": selects, "about": about})

    def _rank(self, rule: Rule) -> Column:
        ties, precision = rule
        if ties == WORST_FIRST:
            return Column(self._from_border(self._worst_first(precision), precision), "given_rank")
        if self.has_ranks:
            return Column("given_rank", "given_rank")
        score, choice = f"score_{precision} desc", OPTIONS["ties"].choice(ties)
        order = [score, *choice.sql.split(", ")]
        rank = f"row_number() over {Window(self._keys, order)}"
        if choice.widens:  # equal scores have equal ranks
            rank = f"rank() over {Window(self._keys, [score])}"
        return Column(self._from_border(rank, precision), "given_rank")

    def _worst_first(self, precision: str) -> str:
        order = ["given_rank desc"] if self.has_ranks else [f"score_{precision} asc", "item_id asc"]
        return f"row_number() over {Window(self._keys, order)}"

    def _score(self, rule: Rule) -> Column:
        _, precision = rule
        return Column(self._from_border(f"score_{precision}", precision), "score")

    def _from_border(self, value: str, precision: str) -> str:
        """A value of an item, none if its score is below `min_score`; its row stays."""
        border = reaches(self.shape.spec, precision).format(score=f"score_{precision}")
        return f"case when {border} then {value} end" if border else value


def name_of(rule: Rule) -> str:
    """What a rule is called in the statement."""
    return " ".join(rule)

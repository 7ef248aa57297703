"""From the joined items of several runs to the best items of each variant, as stages of SQL.

joined_items ─┬> family_1 ─┬> variant_items ─> variant_ranks
variants ─────┴> family_2 ─┘
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlmetrics.fusion.grid import Variant
from sqlmetrics.plan.fusion import FusionStages, run_column
from sqlmetrics.spec.mixture import RANK, Mixture
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.sql.template import double, identifier

LARGEST_PART = 200
"""As many variants are ranked by one statement: databases bound how many selects a union has."""


@dataclass(frozen=True)
class VariantStages:
    """The stages of a sweep.

    Attributes:
        fusion: The stages of a fusion of the runs.
        variants: What is tried; the number of a variant is its place, from 1.
        depth: As many items of each list are kept; None for all.
    """

    fusion: FusionStages
    variants: Sequence[Variant]
    depth: int | None

    @property
    def features(self) -> list[str]:
        """What is read of each run."""
        families = dict.fromkeys(variant.family for variant in self.variants)
        return [*dict.fromkeys([RANK, *(family.feature for family in families if family)])]

    def rows(self, numbers: range, joined: Sequence[Stage]) -> str:
        """The rows of some variants' lists, by their ranks.

        Args:
            numbers: The numbers of the variants.
            joined: The stages to `joined_items`.
        """
        keeps_best = self.depth and not self.fusion.plan.translation.changes
        lists = self._best(numbers) if keeps_best else self._ranked(numbers)
        stages = [*joined, *lists]
        where = f"\nwhere rnk <= {self.depth}" if self.depth else ""
        fusion = self.fusion
        names = [*fusion.query_keys, "item_id", "rnk", "system"]
        facts = [f"{fact} as {identifier(name)}" for fact, name in self.facts.items()]
        columns = ",\n    ".join([*names, *facts])
        return with_stages(stages, f"select\n    {columns}\nfrom variant_ranks{where}")

    @property
    def facts(self) -> dict[str, str]:
        """What the lists have of their queries -> what it is called."""
        shape = self.fusion.plan.shape
        names = (*shape.segments["rankings"], "weight")
        return dict(zip(shape.listed_facts, names, strict=False))

    def _best(self, numbers: range) -> Iterator[Stage]:
        """The best items of each variant: an aggregate each, for all of which items are read once.

        Beside a cross join with the variants this takes a third less time.
        """
        keys, facts = [*self.fusion.query_keys], [*self.fusion.plan.shape.listed_facts]
        scores_by_source: dict[str, dict[int, str]] = {}
        for number, variant in self._numbered(numbers):
            before, source, score = self._score(variant)
            yield from before if source not in scores_by_source else ()
            scores_by_source.setdefault(source, {})[number] = score
        for source, scores in scores_by_source.items():
            view = {
                "about": "the best items of each variant; rank 1 is the best of all",
                "keys": keys,
                "facts": facts,
                "scores": scores,
                "from": source,
                "k": self.depth,
            }
            yield Stage(f"best_{source}", "fusion/best", view)
        view = {
            "about": "the same of all variants",
            "columns": [*keys, *facts, "item_id", "system", "rnk"],
            "sources": [f"best_{source}" for source in scores_by_source],
        }
        yield Stage("variant_ranks", "comparison/union", view)

    def _score(self, variant: Variant) -> tuple[list[Stage], str, str]:
        """As `FusionStages.scored`, with the numbers of a variant."""
        if variant.family:
            return self.fusion.scored(replace(variant.family, weights=variant.weights))
        number = variant.weights.index(1) + 1
        return [], "joined_items", f"-1e0 * {run_column(RANK, number)}"

    def _ranked(self, numbers: range) -> Iterator[Stage]:
        """The lists of each variant, from all their items."""
        yield self._variants(numbers)
        yield from self._items(numbers)
        yield self._ranks()

    def _variants(self, numbers: range) -> Stage:
        numbered = self._numbered(numbers)
        families = [*dict.fromkeys(_formula(variant) for _, variant in numbered)]
        rows = [
            [
                f"{number} as system",
                f"{families.index(_formula(variant))} as family",
                f"{double(variant.family.k if variant.family else 0)} as k",
                *(
                    f"{double(weight)} as weight_{run_number}"
                    for run_number, weight in enumerate(variant.weights, 1)
                ),
            ]
            for number, variant in numbered
        ]
        return Stage("variants", "fusion/variants", {"rows": rows})

    def _numbered(self, numbers: range) -> list[tuple[int, Variant]]:
        return [(number, self.variants[number - 1]) for number in numbers]

    def _items(self, numbers: range) -> Iterator[Stage]:
        """The items of each variant with their scores."""
        fusion, sources = self.fusion, []
        columns = [*fusion.query_keys, *fusion.plan.shape.listed_facts, "item_id"]
        weights = [f"variants.weight_{number}" for number, _ in enumerate(fusion.runs, 1)]
        families = dict.fromkeys(_formula(variant) for _, variant in self._numbered(numbers))
        for number, family in enumerate(families):
            source, score = "joined_items", self._alone(weights)
            if family:
                before, source, score = fusion.scored(family, weights, "variants.k")
                yield from before if source not in sources else ()
            sources.append(source)
            about = f"by {family.method}" if family else "of a run alone"
            view = {
                "about": f"the items of each variant {about}",
                "columns": [*columns, "variants.system", Column(score, "score")],
                "from": f"{source}\ncross join variants",
                "where": f"variants.family = {number}",
            }
            yield Stage(f"family_{number}", "columns", view)
        view = {
            "about": "the items of all variants",
            "columns": [*columns, "system", "score"],
            "sources": [f"family_{number}" for number, _ in enumerate(families)],
        }
        yield Stage("variant_items", "comparison/union", view)

    def _alone(self, weights: Sequence[str]) -> str:
        """The score of an item in the list of one run; NULL where it is not in it."""
        whens = " ".join(
            f"when {weight} = 1e0 then {run_column(RANK, number)}"
            for number, weight in enumerate(weights, 1)
        )
        return f"-1e0 * case {whens} end"

    def _ranks(self) -> Stage:
        fusion = self.fusion
        keys = [*fusion.query_keys, "system"]
        rank = f"row_number() over {Window(keys, ['score desc', 'item_id asc'])}"
        view = {
            "about": "rank 1 is the best of a query and variant",
            "keys": keys,
            "facts": [*fusion.plan.shape.listed_facts],
            "rank": Column(rank, "rnk"),
            "from": "variant_items",
        }
        return Stage("variant_ranks", "fusion/ranks", view)


def _formula(variant: Variant) -> Mixture | None:
    """The mixture whose formula it has, with numbers of its own."""
    return variant.family and replace(variant.family, k=0)


def parts(n_variants: int, n_queries: int, most_lists: int) -> Iterator[range]:
    """The variants in parts, of which each has so many lists at most."""
    size = max(1, min(LARGEST_PART, most_lists // max(1, n_queries)))
    for first in range(1, n_variants + 1, size):
        yield range(first, min(first + size, n_variants + 1))

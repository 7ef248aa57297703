"""`fuse_sweep`: many mixtures of several rankings, evaluated in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Unpack

from sqlmetrics.annotation.reach import IN_LIST, OF_QUERY
from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.measure import Measure, metric_texts
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.statements import Statements, join_stage, segments_stage
from sqlmetrics.comparison.sums.lots import numbers
from sqlmetrics.comparison.sums.pairing import SEGMENT, Pairing
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import SpecError, SqlmetricsError
from sqlmetrics.evaluation.arguments import check_count, check_level, listed
from sqlmetrics.evaluation.execution import USUALLY, executing, result_of
from sqlmetrics.evaluation.question import Inputs, TableArguments, check_arguments
from sqlmetrics.fusion.fuse import Question, check_finite, check_scores, run_names
from sqlmetrics.fusion.grid import Grid, Variant, Winner, find_winner, grid_of
from sqlmetrics.fusion.sweep_result import (
    Sweep,
    bound_columns,
    bounds_of,
    hanging_lead,
    variant_row,
    winner_row,
)
from sqlmetrics.plan.fusion import FusionStages, run_column
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.summary import ALL
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.mixture import RANK, Mixture
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.source import RankingColumns, Rankings
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.sql.template import double, identifier
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.stats.bootstrap import check_numpy

# The sums of queries that say which variant is best: all that leaves the database of queries.
#
# Queries, or clusters of them, stand in the order of a hash of their ids with a seed. Where they
# are
# many they are summed in groups; the error of an interval's width is about 1 in sqrt(2 x groups).

CELLS = 2_000_000
"""About as many sums leave the database at most."""


@dataclass(frozen=True)
class Units:
    """The units of a sweep: queries, clusters or groups of them.

    Attributes:
        plan: The plan of the evaluation, whose systems are the numbers of variants.
        statements: Of this evaluation.
        variants: What was tried.
        seed: Another one gives another order.
        folds: In as many parts are they divided.
        level: The coverage of intervals.
    """

    plan: Plan
    statements: Statements
    variants: Sequence[Variant]
    seed: int
    folds: int
    level: float

    def winners(self) -> Iterator[tuple[Measure, tuple[str, str], Winner]]:
        """Metric, segment and winner, of the metrics of which more, or less, is better."""
        import numpy as np

        pairing = self._pairing()
        stages = [*self.statements.script.stages, *self._stages(pairing)]
        text = with_stages(stages, "select *\nfrom unit_sums")
        self.statements.selects.append(text)
        table = self.statements.engine.table(text)
        columns = {name: np.array(table[name].to_pylist()) if name in ("system", *SEGMENT)
                   else table[name].to_numpy() for name in table.column_names}  # fmt: skip
        places = columns["system"].astype(int) - 1
        segments = {*zip(*(map(str, columns[name]) for name in SEGMENT), strict=True)}
        for segment in sorted(segments, key=lambda pair: (pair[0] != ALL, pair)):
            inside = (columns[SEGMENT[0]] == segment[0]) & (columns[SEGMENT[1]] == segment[1])
            _, rows = np.unique(columns["unit"][inside], return_inverse=True)
            for measure in pairing.measures:
                sums, weights = np.zeros((2, rows.max() + 1, len(self.variants)))
                for array, end in ((sums, "sum"), (weights, "weight")):
                    array[rows, places[inside]] = columns[f"{measure.column}_{end}"][inside]
                sign = SIGNS[measure.metric.better]
                if winner := find_winner(
                    sums, weights, self.variants, sign=sign, folds=self.folds, level=self.level
                ):
                    yield measure, segment, winner

    def _pairing(self) -> Pairing:
        plan = self.plan
        measures = [
            measure
            for measure in findings.comparable(plan)[0]
            if SIGNS[measure.metric.better] and measure.name != "judged"
        ]
        first, *rivals = (str(number) for number in range(1, len(self.variants) + 1))
        is_dated = "metric_date" in plan.shape.keys
        cluster = plan.spec.cluster or ("query_id" if is_dated else None)
        return Pairing(plan, tuple(measures), tuple(rivals), first, plan.spec.by, cluster)

    def _stages(self, pairing: Pairing) -> Iterator[Stage]:
        """From `per_query` to one row per unit, variant and segment: its sums of each metric."""
        yield from pairing.query_values()
        yield from numbers(pairing, self.seed, "query_values")
        weight, columns, sums = pairing.weight, list[Column](), list[Column]()
        folds = self.folds
        most = max(folds, CELLS // len(self.variants) // folds * folds)
        for measure in pairing.measures:
            name = measure.column
            columns += [
                Column(f"coalesce({name} * {weight}, 0e0)", f"{name}_sum"),
                Column(f"case when {name} is null then 0e0 else {weight} end", f"{name}_weight"),
            ]
            sums += [Column(f"sum({name}_{end})", f"{name}_{end}") for end in ("sum", "weight")]
        unit = f"cluster_numbers.number - {most}e0 * floor(cluster_numbers.number / {most}e0)"
        carried = [f"query_values.{name}" for name in pairing.carried if name != "weight"]
        yield join_stage(
            "numbered_values",
            "what a query adds to the sums, and the number of its unit",
            [*carried, Column(unit, "unit"), *columns],
            "query_values",
            to="cluster_numbers",
            on=(pairing.unit[-1],),
        )
        about = "one row per unit of queries, variant and segment"
        keys = ["unit", "system"], list[str]()
        yield segments_stage(
            "unit_sums", about, keys, sums, "numbered_values", segments=pairing.segments
        )


# From the joined items of several runs to the best items of each variant, as stages of SQL.
#
# joined_items ─┬> family_1 ─┬> variant_items ─> variant_ranks
# variants ─────┴> family_2 ─┘

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


LISTS = 100_000
"""So many lists, each of a query and variant, are cut at once."""

Opened = tuple[Spec, Tables, list[str]]
"""A spec whose rankings are the lists of all variants, where its tables are, and the statements."""

NORMS, CONSTANTS = ("min_max", "z_score"), (10.0, 60.0)
"""What is tried unless others are named."""


def fuse_sweep(
    rankings: Any,
    labels: Any = None,
    metrics: str | Sequence[str] = (),
    *,
    like: str | None = None,
    method: str | Sequence[str] = (),
    norm: str | Sequence[str] = (),
    k: float | Sequence[float] = (),
    floor: float | None = None,
    step: float = 0.1,
    draws: int | None = None,
    seed: int = 1,
    folds: int = 5,
    level: float = CONFIDENCE,
    by: str | Sequence[str] = (),
    runs: Sequence[str] = (),
    window: int | None = None,
    bounds: bool = False,
    start: str | date | None = None,
    end: str | date | None = None,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Sweep:
    """Evaluate many mixtures of several rankings in one pass, and say which of them is best.

    The variants are each run alone and, of each method, the mixtures with all weights of a grid.
    Their lists are cut at the deepest cutoff of the metrics; without one they are evaluated whole.

    Args:
        rankings: Two to ten runs, as `fuse` takes them.
        labels: The labels, as `evaluate` takes them; None with a spec, and with traces.
        metrics: As `evaluate` takes them; the first one decides. Default: those of the spec, else
            ndcg@10.
        like: A search engine whose formula it is; see `fuse`.
        method: Methods to try, all but `med`; see `fuse`. Default: rrf, and sum if there are
            scores.
        norm: Norms to try with methods of scores. Default: min_max and z_score.
        k: Constants of rrf to try. Default: 10 and 60.
        floor: What an item counts in a run that lacks it, before the weight; see `fuse`.
        step: The step from one weight to the next, a divisor of 1 from 0.01 to 0.5; weights sum
            to 1.
        draws: As many variants at random instead of the grid.
        seed: Of the random variants, and of the folds.
        folds: In as many parts are queries divided, by a hash of their ids; 2 or more.
        level: The coverage of intervals.
        by: Segments, each of which has a winner of its own.
        runs: The runs in their order, where not all are wanted.
        window: As many items of each run are looked at; default: all.
        bounds: Whether to evaluate each variant also without items that have no label, with all
            of them as bad, and as good. Whole lists are then kept.
        start: The first day.
        end: The day after the last one.
        connection: Where the tables are; see `evaluate`.
        check: Whether to look for bad input first.
        **arguments: The other arguments of `evaluate`.

    Returns:
        The sweep: a row a metric, variant, segment and day in `variants`, a row a metric and
        segment in `winners`. It prints as the best variants and what is known of the winner.

    Raises:
        SpecError: If there are not two to ten runs, or an argument is wrong.
        InputError: If the data would give wrong numbers.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> def run(*items):
    ...     numbers = [*range(1, len(items) + 1)]
    ...     return pa.table({"query_id": [1] * len(items), "item_id": items, "rank": numbers})
    >>> truth = pa.table({"query_id": [1], "item_id": ["b"], "grade": [1]})
    >>> runs = {"bm25": run("a", "b", "c"), "dense": run("b", "d")}
    >>> rows = fuse_sweep(runs, truth, "mrr", rank="rank", k=60).to_dicts()["variants"]
    >>> alone = [r for r in rows if r["metric"] == "mrr" and r["variant"].endswith("alone")]
    >>> [(row["variant"], row["value"]) for row in alone]
    [('bm25 alone', 0.5), ('dense alone', 1.0)]
    """
    rankings = read_if_spec(rankings)
    check_numpy("a sweep")
    check_arguments(fuse_sweep, arguments)
    check_level("the confidence level", level)
    check_count("folds", folds, least=2)
    if window is not None:
        check_count("window", window)
    if labels is None and not isinstance(rankings, Spec):
        raise SpecError("a sweep needs labels: the table after the runs (labels, --labels)")
    segments = Inputs(rankings, labels, arguments).segments(by)
    methods, norms, constants = map(listed, (method, norm, k))
    numbers_of_grid: dict[str, Any] = {"floor": floor, "step": step, "draws": draws, "seed": seed}
    grid_of(like, methods, norms, constants, **numbers_of_grid)
    question = Question(rankings, labels, (start, end), arguments, metric_texts(metrics), segments)
    with question.planned(connection, check=check) as (plan, engine), engine.reading():
        names = run_names(plan, engine, runs)
        is_ranked = "rank" in plan.shape.columns["rankings"]
        if not like:
            methods = methods or (("rrf",) if is_ranked and not norms else ("rrf", "sum"))
            norms, constants = norms or NORMS, constants or CONSTANTS
        grid = grid_of(like, methods, norms, constants, **numbers_of_grid)
        for family in grid.families:
            check_scores(plan, family)
        if check:
            check_finite(plan, engine, [(family, names) for family in grid.families])
        return _Sweeping(plan, engine, names, grid, window, bounds).sweep(folds, level)


@dataclass(frozen=True)
class _Sweeping:
    """A sweep while its tables are there."""

    plan: Plan
    engine: Database
    runs: tuple[str, ...]
    grid: Grid
    window: int | None
    has_bounds: bool

    def sweep(self, folds: int, level: float) -> Sweep:
        variants = self.grid.variants(self.runs)
        with self._lists(self._spec(), variants) as (spec, tables, statements_before):
            plan = make_plan(spec, tables, moments=True)
            with executing(
                plan, self.engine, check=False, per_query=False, execution=USUALLY
            ) as script:
                result = result_of(plan, script, self.engine, check=False, confidence=level)
                statements = Statements(script, self.engine)
                units = Units(plan, statements, variants, self.grid.seed, folds, level)
                winners = [*units.winners()]
            notes = [*self._doubts(plan, winners[0][2], variants)] if winners else []
            of_labels = bounds_of(plan, self.engine) if self.has_bounds else None
        good = {
            (str(measure), segment, number)
            for measure, segment, winner in winners
            for number in winner.as_good
        }
        signs = {str(measure): SIGNS[measure.metric.better] for measure in plan.measures}
        rows = []
        for row in sorted(result.to_dicts(), key=lambda row: int(row["system"])):
            number, sign = int(row["system"]), signs[at_cutoff(row["metric"], row["k"])]
            variant = variants[number - 1]
            rows.append(
                variant_row(row, variant, self.runs, good, number=number, sign=sign)
                | bound_columns(row, number, of_labels, self.plan.measures[0])
            )
        return Sweep(
            rows=tuple(rows),
            winners=tuple(winner_row(*winner, variants) for winner in winners),
            runs=self.runs,
            metrics=tuple(map(str, self.plan.measures)),
            level=level,
            notes=(*self.plan.shape.at.notes, *notes),
            executed_sql="\n\n".join([*statements_before, statements.text()]),
        )

    def _doubts(self, plan: Plan, winner: Winner, variants: Sequence[Variant]) -> Iterator[str]:
        """That the winner's lead hangs on items without a label, and what would settle it."""
        if not self.engine.translation.dialect.keep:
            return
        for rival in dict.fromkeys((winner.equal, winner.run)):
            if rival == winner.best:
                continue
            if change := hanging_lead(plan, self.engine, winner.best + 1, rival + 1):
                yield (
                    f"the lead over {variants[rival].name} depends on items without a label: if "
                    f"those that only it shows were relevant, {change}; write both with fuse "
                    f"--out and have the items graded: sqlmetrics sheet BEST OTHER LABELS "
                    f"-k {plan.measures[0].k or 10} --labelled-queries"
                )

    def _spec(self) -> Spec:
        """What is evaluated: the metrics, and how many of the items shown have a label."""
        plan, spec = self.plan, self.plan.spec
        if spec.labels is None:
            raise SpecError("a sweep needs a table of labels beside the runs")
        has, of_rankings = plan.shape.columns["rankings"], plan.shape.segments["rankings"]
        columns = RankingColumns(
            query="query_id",
            item="item_id",
            rank="rnk",
            system="system",
            date="metric_date" if "date" in has else None,
            weight="weight" if "weight" in has else None,
        )
        changed: dict[str, Any] = {
            "rankings": Rankings(relation="variant_ranks", columns=columns),
            "segments": {n: text for n, text in spec.segments.items() if n not in of_rankings},
            "baseline": None,
            "output": None,
            "checks": (),
            "online": (),
        }
        texts = [measure.text for measure in plan.measures]
        judged = f"judged@{plan.measures[0].k or 10}"
        try:
            return spec.having(**changed, metrics=tuple(dict.fromkeys([*texts, judged])))
        except SqlmetricsError:
            return spec.having(**changed, metrics=tuple(texts))

    @contextmanager
    def _lists(
        self, spec: Spec, variants: Sequence[Variant]
    ) -> Iterator[tuple[Spec, Tables, list[str]]]:
        """The spec and tables with the lists of all variants as rankings, and the statements."""
        fusion = FusionStages(self.plan, self.runs, self.window)
        tables, engine, dialect = self.plan.shape.at, self.engine, self.engine.translation.dialect
        fused_tables = replace(
            tables,
            zones={name: zone for name, zone in tables.zones.items() if name != "rankings"},
            day_kinds={name: kind for name, kind in tables.day_kinds.items() if name != "rankings"},
            systems=(),
            rankings=Relation("table", "variant_ranks"),
        )
        depth = None if self.has_bounds else _depth(make_plan(spec, fused_tables))
        stages = VariantStages(fusion, variants, depth)
        joined = [*fusion.joined(stages.features)]
        numbers = range(1, len(variants) + 1)
        if not dialect.keep:
            query = stages.rows(numbers, joined)
            yield spec, replace(fused_tables, rankings=Relation("query", query)), []
            return
        with ExitStack() as stack:
            items = Step(
                engine.free_name("sqlmetrics_items"),
                with_stages(joined, "select *\nfrom joined_items"),
            )
            stack.enter_context(items.created_in(engine))
            kept = [Stage("joined_items", "kept", {"table": items.name})]
            keys = ", ".join(fusion.query_keys)
            distinct = f"(select distinct {keys} from {items.name}) as queries"
            n_queries = int(engine.rows(f"select count(*) from {distinct}")[0][0])
            first, *rest = parts(len(variants), n_queries, LISTS)
            lists = Step(engine.free_name("sqlmetrics_lists"), stages.rows(first, kept))
            stack.enter_context(lists.created_in(engine))
            inserts = [f"insert into {lists.name}\n{stages.rows(part, kept)}" for part in rest]
            for insert in inserts:
                engine.execute(insert)
            statements = [step.statement(engine.translation) for step in (items, lists)] + inserts
            texts = [f"{engine.translation.text(text).rstrip()};" for text in statements]
            spec = spec.having(rankings=spec.rankings.model_copy(update={"relation": lists.name}))
            yield spec, replace(fused_tables, rankings=Relation("table", lists.name)), texts


def _depth(plan: Plan) -> int | None:
    """The deepest rank that a metric looks at; None for the ends of lists."""
    depths = [
        (sums.over in IN_LIST and sums.deepest) or None
        for sums in plan.needs.sums.values()
        if sums.columns and sums.over not in OF_QUERY
    ]
    if plan.needs.leaves_out or plan.needs.pooled or None in depths:
        return None
    return max((depth for depth in depths if depth), default=None)

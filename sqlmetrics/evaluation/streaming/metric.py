"""`StreamingMetric`: batches in, the metrics of all that came out, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from sqlmetrics.catalog.keywords import Conventions
from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.catalog.tool_names import all_in_our_words
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.report.notes import low_grades
from sqlmetrics.evaluation.report.result import name_metrics
from sqlmetrics.evaluation.streaming.frameworks import framework
from sqlmetrics.evaluation.streaming.table import Sums, added, deepest, evaluated, refuse
from sqlmetrics.spec.spec import Spec

if TYPE_CHECKING:
    from sqlmetrics.evaluation.streaming.histogram import Histogram
    from sqlmetrics.evaluation.streaming.lists import InputChecks, Lists, RowStore
    from sqlmetrics.evaluation.streaming.places import PlaceSums


# The conventions of lists whose items have no ids, and what equal scores mean there.

TIES = ("average", "best", "worst", "input_order")
"""Rules for tied scores that need no ids of items."""


def streamed_options(preset: str | None, conventions: Mapping[str, Any]) -> dict[str, Any]:
    """The conventions of a stream: as given, and ties=average where no other rule can hold.

    Raises:
        SpecError: If one of them needs what a stream does not have.
    """
    if conventions.get("identical_ids") == "drop":
        raise SpecError("identical_ids=drop: items have no ids here; leave the option out")
    if conventions.get("min_score", "none") != "none":
        raise SpecError("min_score: whole lists are evaluated here; leave items out with mask")
    if conventions.get("score_precision") == "exact":
        raise SpecError(
            "score_precision=exact: scores of models are 64-bit floats; leave the option out"
        )
    options = {**conventions, "identical_ids": "keep"}
    of_preset = PRESETS[preset].options if preset and preset in PRESETS else {}
    if not options.get("ties") and of_preset.get("ties") not in TIES:
        options["ties"] = "average"
    return options


def refuse_ties(spec: Spec) -> None:
    """Raise SpecError if what a metric does with equal scores needs ids of items."""
    rules = {str(measure): spec.settings(measure)["ties"] for measure in spec.components}
    for text, rule in {"": spec.options["ties"], **rules}.items():
        if rule not in TIES:
            message = unknown("ties, for items without ids,", rule, TIES)
            raise SpecError(f"{text}: {message}" if text else message)
    for measure in spec.components:
        rule = rules[str(measure)]
        if rule in ("best", "worst") and "num_judged" in measure.metric.parts.values():
            raise SpecError(
                f"{measure}: ties={rule} orders items by their labels and does not define the "
                "order of an unlabelled item and one of label 0; use average or input_order"
            )


def needs_ties(spec: Spec) -> bool:
    """Whether a metric looks at equal scores of lists that come in order, not at places alone."""
    return any(
        not measure.metric.by_grades or spec.settings(measure)["ties"] != "input_order"
        for measure in spec.components
    )


LARGEST = 8_000_000
"""With more items in different lists than this, they are evaluated, and their sums kept."""


class StreamingMetric:
    """Ranking metrics in a training loop: means over all queries given to `update`.

    The numbers are those of `evaluate` on all data at once, whatever the batches, their order and
    the workers. The metric keeps only what it needs: how often each arrangement of labels occurred,
    or, for lists with many labels, sums over their places. A matrix of lists needs no memory of its
    batches; rows with `indexes` are kept, 4 million of them in memory and the rest in a temporary
    file, since their query may appear again.

    Args:
        metrics: Texts like `ndcg@10`, `hit@10`, `mrr`, `recall(rel=2)@50`: means over queries.
            Counts, metrics over all lists together (`auc`, `coverage@k`) and metrics of items have
            no such mean and are refused.
        metrics_from: A folder, or several, of your own metrics, one file each; `metrics` may name
            them.
        preset: A named set of conventions. Default: `house`.
        conventions: Options as in `evaluate`. `ties` says what tied scores mean: `average` over all
            their orders, so that a model with equal scores for all items gets the value of chance;
            `best`; `worst`; or `input_order`, the first item first, as in `argsort`. Default: that
            of the preset if it is one of these, else `average`.

    Raises:
        SpecError: If a metric or option is unknown, a metric is not a mean over queries, or its
            mean over ties is unknown.

    >>> import sqlmetrics as sm
    >>> metric = sm.StreamingMetric(["ndcg@2", "hit@1"])
    >>> metric.update([[0.1, 0.9, 0.3], [0.8, 0.2, 0.5]], [[0, 1, 0], [0, 0, 1]])
    >>> metric.update([0.3, 0.7], [1, 0], indexes=[7, 7])
    >>> {name: round(value, 4) for name, value in metric.compute().items()}
    {'ndcg@2': 0.754, 'hit@1': 0.3333}
    """

    def __init__(
        self,
        metrics: str | Sequence[str],
        *,
        metrics_from: Any = None,
        preset: str | None = None,
        **conventions: Unpack[Conventions],
    ) -> None:
        try:
            import numpy as np  # noqa: F401 (looked for before a batch comes)
        except ImportError:  # pragma: no cover (whoever trains a model has it)
            raise SpecError("StreamingMetric needs NumPy; run pip install numpy") from None
        options = streamed_options(preset, conventions)
        texts, refused = all_in_our_words(metric_texts(metrics), preset or "house")
        if refused:
            raise SpecError(refused)
        files = MetricFiles.read(metrics_from or ())
        refuse(texts, files, conventions.get("average"))
        self._spec = Spec(
            rankings={"relation": "rankings"},
            labels={"relation": "labels"},
            queries={"relation": "queries", "columns": {"weight": "weight"}},
            metrics=texts,
            metrics_from=files,
            preset=preset or "house",
            conventions=options,
        )
        refuse_ties(self._spec)
        self._in_order = self._spec.options["ties"] == "input_order"
        self._needs_ties = needs_ties(self._spec)
        self._precision = self._spec.options["score_precision"]
        self._deepest = deepest(self._spec)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        from sqlmetrics.evaluation.streaming.histogram import Histogram
        from sqlmetrics.evaluation.streaming.lists import InputChecks, RowStore
        from sqlmetrics.evaluation.streaming.places import PlaceSums

        self._checks: InputChecks = InputChecks(self._spec)
        self._lists: Histogram = Histogram()
        self._places: PlaceSums = PlaceSums(self._spec, self._deepest)
        self._rows: RowStore = RowStore()
        self._sums: Sums = {}
        self._n_queries = 0
        self._n_masked = 0

    @property
    def metrics(self) -> tuple[str, ...]:
        """The canonical texts of the metrics: the keys of the result of `compute`."""
        return tuple(map(str, self._spec.measures))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the batches that a reader should know."""
        notes = [*low_grades(self._spec.measures, self._spec, self._checks.highest)]
        if self._n_masked:
            noun = "scores" if self._n_masked > 1 else "score"
            notes.append(f"preds: {self._n_masked:,} {noun} of -inf are masked, not retrieved")
        return tuple(notes)

    def update(
        self, preds: Any, target: Any, indexes: Any = None, *, mask: Any = None, weight: Any = None
    ) -> None:
        """Add a batch: arrays of NumPy, PyTorch, Paddle, JAX, TensorFlow, or lists.

        Args:
            preds: Scores, higher is better: [batch, n] with one query per row; or [n], for one
                query, or with `indexes` for several. An item with -inf, masked, or not stored in a
                sparse matrix is not retrieved; its label still counts.
            target: Labels of the same shape, any grades; NaN, or masked, for an item without a
                label.
            indexes: For [n]: the query of each score, as whole numbers. A query may appear again in
                a later batch.
            mask: For [batch, n]: False where a row has no item, if lists differ in length.
            weight: For [batch, n]: [batch], the weight of each query. Default: 1.

        Raises:
            InputError: If shapes differ, a score is NaN, an index is not a whole number, or labels
                or weights are invalid in `evaluate`: infinite, too large, negative (unless
                `negative_grades` allows it) or, for weights, NaN.
        """
        from sqlmetrics.evaluation.streaming import lists

        scores = lists.rounded(lists.array(preds, "preds", -math.inf), self._precision)
        grades = lists.array(target, "target")
        if scores.shape != grades.shape or scores.ndim not in (1, 2):
            raise InputError(
                "preds and target must have one shape, [batch, n] or [n]; given "
                f"{[*scores.shape]} and {[*grades.shape]}"
            )
        if indexes is not None:
            if mask is not None or weight is not None:
                raise InputError(
                    "mask and weight only apply to a matrix; leave them out with indexes"
                )
            self._add_rows(scores, grades, lists.array(indexes, "indexes"))
            return
        if scores.ndim == 1:
            scores, grades = scores[None, :], grades[None, :]
        self._add_lists(scores, grades, mask, weight)

    def _add_lists(self, scores: Any, grades: Any, mask: Any, weight: Any) -> None:
        """A matrix: a list a row."""
        import numpy as np

        from sqlmetrics.evaluation.streaming import lists

        present = None if mask is None else lists.array(mask, "mask").astype(bool)
        if present is not None and present.shape != scores.shape:
            raise InputError(
                f"mask must have the shape of preds, {[*scores.shape]}; given {present.shape}"
            )
        weights = np.ones(len(scores)) if weight is None else lists.array(weight, "weight")
        if weights.shape != scores.shape[:1]:
            raise InputError(
                f"weight must have {len(scores)} numbers, one per row; given {weights.shape}"
            )
        _refuse_nan(scores if present is None else scores[present])
        if (
            present is not None and not (has_items := present.any(1)).all()
        ):  # a row without items is none
            scores, grades, present = scores[has_items], grades[has_items], present[has_items]
            weights = weights[has_items]
        self._checks.check_lists(grades, present, weights)
        self._n_queries += len(scores)
        if scores.dtype.kind == "f" and np.isneginf(scores).any():
            scores, grades, present, weights = self._without_masked(
                scores, grades, present, weights
            )
        if len(scores):
            self._sum_up(scores, grades, present, weights)

    def _sum_up(self, scores: Any, grades: Any, present: Any, weights: Any) -> None:
        """Sum lists up by their places, or count those that have no such sums."""
        from sqlmetrics.evaluation.streaming import lists

        summed = self._places.take(scores, grades, present, weights)
        if summed is not None:
            if summed.all():
                return
            scores, grades, weights = scores[~summed], grades[~summed], weights[~summed]
            present = None if present is None else present[~summed]
        self._count(
            self._lists,
            lists.of_rows(scores, grades, present, weights, in_order=self._in_order),
        )
        if self._lists.size() > LARGEST:
            self._sums = added(self._sums, evaluated(self._spec, self._lists))
            self._lists = type(self._lists)()

    def _without_masked(
        self, scores: Any, grades: Any, present: Any, weights: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Count lists with labels of masked items, or none but these; the others are left."""
        import numpy as np

        from sqlmetrics.evaluation.streaming import lists

        everywhere = np.ones(scores.shape, bool) if present is None else present
        masked = everywhere & np.isneginf(scores)
        retrieved = everywhere & ~masked
        self._n_masked += int(masked.sum())
        missed = masked & ~np.isnan(grades)
        is_empty = ~retrieved.any(1)
        if self._deepest:  # labels of 0 count for nothing there, if there are others
            missed &= (grades != 0) | is_empty[:, None]
        is_separate = missed.any(1) | is_empty
        if is_separate.any():
            selected = [part[is_separate] for part in (scores, grades, retrieved, weights)]
            ranked = lists.of_rows(*selected, in_order=self._in_order)
            self._count(
                self._lists, lists.with_missed(ranked, grades[is_separate], missed[is_separate])
            )
        return (
            scores[~is_separate],
            grades[~is_separate],
            retrieved[~is_separate],
            weights[~is_separate],
        )

    def _add_rows(self, scores: Any, grades: Any, query: Any) -> None:
        """Rows of queries that may come again."""
        import numpy as np

        if scores.ndim != 1 or query.shape != scores.shape:
            raise InputError(
                f"with indexes, all three must have the shape [n]; given preds {[*scores.shape]} "
                f"and indexes {[*query.shape]}"
            )
        if query.dtype.kind not in "biu":
            raise InputError(f"indexes must be whole numbers; given {query.dtype}")
        _refuse_nan(scores)
        self._n_masked += int(np.isneginf(scores).sum()) if scores.dtype.kind == "f" else 0
        self._checks.check_rows(query, grades)
        self._rows.add(query, scores, grades)

    def _count(self, histogram: Histogram, ranked: Lists) -> None:
        """Count lists, as far as a metric can tell them apart."""
        from sqlmetrics.evaluation.streaming import lists

        ranked = ranked if self._needs_ties else ranked.in_order()
        histogram.add(lists.cut(ranked, self._deepest) if self._deepest else ranked)

    def compute(self, *, names: Literal["metric", "column"] = "metric") -> dict[str, float]:
        """The metrics of all batches since `reset`: text -> value.

        More batches may follow, and it may be called again. A value is NaN if no query has one.

        Args:
            names: The form of the names: `metric`, as in `ndcg@10`, or `column`, as in
                `ndcg_at_10`, which MLflow accepts too.
        """
        from sqlmetrics.evaluation.streaming import lists
        from sqlmetrics.evaluation.streaming.histogram import Histogram

        sums = added(self._sums, self._places.sums())
        sums = added(sums, evaluated(self._spec, self._lists))
        for rows in self._rows.batches():
            histogram = Histogram()
            ranked = lists.of_groups(*rows, in_order=self._in_order, with_zeros=not self._deepest)
            self._count(histogram, ranked)
            sums = added(sums, evaluated(self._spec, histogram))
        means = {
            name: above / below if below else float("nan") for name, (above, below) in sums.items()
        }
        name_by_metric = name_metrics(self._spec.measures, names)
        return {name_by_metric[name]: means.get(name, float("nan")) for name in self.metrics}

    accumulate = compute

    def merge(self, *others: StreamingMetric) -> StreamingMetric:
        """Add the batches of other metrics of the same kind, such as those of other workers.

        They may be pickled in other processes. Rows with the same index belong to the same query.

        Returns:
            Itself.

        Raises:
            SpecError: If the metrics or the conventions differ.
        """
        for stream in others:
            if differences := list(_differences(self._spec, stream._spec)):
                raise SpecError(
                    "metrics can only be merged if their texts and conventions are the same; "
                    f"{'; '.join(differences)}"
                )
            self._checks.merge(stream._checks)
            self._n_masked += stream._n_masked
            self._lists.merge(stream._lists)
            self._places.merge(stream._places)
            self._rows.merge(stream._rows)
            self._sums = added(self._sums, stream._sums)
            self._n_queries += stream._n_queries
        return self

    def to_torchmetrics(self) -> Any:
        """The same as a `torchmetrics.Metric`: `update(preds, target, indexes=None)`, `compute()`.

        Of one metric `compute` gives a tensor, of several a dict of them; workers of
        `torch.distributed` are merged.

        Raises:
            SpecError: If torchmetrics is not installed.
        """
        return framework("torchmetrics", self)

    def to_paddle(self) -> Any:
        """The same as a `paddle.metric.Metric`: `update(preds, target)`, `accumulate()`, `name()`.

        Of one metric `accumulate` gives a number, of several a list in their order.

        Raises:
            SpecError: If Paddle is not installed.
        """
        return framework("paddle", self)

    def to_keras(self) -> Any:
        """The same as a `keras.metrics.Metric`: `update_state(y_true, y_pred, sample_weight)`.

        `result` gives a number of one metric, and a dict of several. What runs compiled has no
        arrays: `compile(..., run_eagerly=True)`, or update it after each batch yourself.

        Raises:
            SpecError: If Keras is not installed.
        """
        return framework("keras", self)

    def __repr__(self) -> str:
        return f"StreamingMetric({', '.join(self.metrics)})"


def _differences(spec: Spec, other_spec: Spec) -> Iterator[str]:
    """What another stream was asked that this one was not."""
    texts = [", ".join(map(str, side.measures)) for side in (other_spec, spec)]
    if texts[0] != texts[1]:
        yield f"given {texts[0]} for {texts[1]}"
        return
    for measure, other_measure in zip(spec.measures, other_spec.measures, strict=True):
        if MetricFiles.of(measure).metrics != MetricFiles.of(other_measure).metrics:
            yield f"{measure} is of another file"
        elif measure.text != other_measure.text:
            yield f"given {other_measure.text} for {measure.text}"
    for name, value in spec.options.items():
        if other_spec.options[name] != value:
            yield f"given {name}={other_spec.options[name]} for {name}={value}"
    if spec.preset != other_spec.preset:
        yield f"given preset {other_spec.preset} for {spec.preset}"


def _refuse_nan(scores: Any) -> None:
    """Raise InputError for scores that are no numbers."""
    import numpy as np

    if scores.dtype.kind == "f" and (missing := int(np.isnan(scores).sum())):
        raise InputError(
            f"{missing:,} of {scores.size:,} preds are NaN and cannot be ranked; leave them out, "
            "or mark them in mask"
        )

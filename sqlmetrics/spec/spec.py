"""What the user asks: two tables, their columns, metrics and conventions; checked on creation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from sqlmetrics.catalog.conventions import OPTIONS, problems_of, read, resolve
from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.catalog.measure import Measure, metric_texts, parse_beside, spelled_out, with_name
from sqlmetrics.catalog.metric import Metric, limits
from sqlmetrics.catalog.metric_files import PACKAGE, MetricFiles
from sqlmetrics.catalog.online import ONLINE, Online, is_online, online
from sqlmetrics.catalog.option import Value, is_number
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.catalog.tool_names import all_in_our_words, in_our_words
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.engines.yaml_file import read_yaml
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.spec import schema
from sqlmetrics.spec.definition import ALL, definition, definition_hash
from sqlmetrics.spec.schema import Placeholder
from sqlmetrics.spec.segments import read_segments
from sqlmetrics.spec.settings import Settings
from sqlmetrics.spec.source import (
    Items,
    LabelColumns,
    Labels,
    Model,
    Output,
    Queries,
    Rankings,
    no_labels,
    resolve_file,
)
from sqlmetrics.stats import CONFIDENCE

if TYPE_CHECKING:
    from sqlmetrics.spec.click_log import Clicks
    from sqlmetrics.spec.threshold import Threshold
else:

    class Clicks(Placeholder):
        """The model of click logs, which takes as long to build as all others together."""

        home, name = "sqlmetrics.spec.click_log", "Clicks"

    class Threshold(Placeholder):
        """The model of a check, which only tables have that are written."""

        home, name = "sqlmetrics.spec.threshold", "Threshold"


def _as_tuple(value: object) -> object:
    """A single text where a list of texts is meant."""
    return (value,) if isinstance(value, str) else value


def _with_gain_table(conventions: object) -> object:
    """A list of numbers as the table of gains that it is, as LightGBM writes it: one a grade."""
    gain = conventions.get("gain") if isinstance(conventions, Mapping) else None
    if not (isinstance(gain, list | tuple) and gain and all(map(is_number, gain))):
        return conventions
    return {**conventions, "gain": dict(enumerate(gain))}  # type: ignore[dict-item]


class _InOurWords(tuple[str, ...]):
    """Metrics in our notation, which no preset's tool has to read."""

    __slots__ = ()


_TEXTS = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_tuple),
    WithJsonSchema(schema.one_or_list({"type": "string"})),
]

_GRADED = {"required": ["columns"], "properties": {"columns": {"required": ["grade"]}}}

_FORMS: Any = {
    "required": [],
    "oneOf": [
        {"required": ["clicks"]},
        {"required": ["rankings", "labels"]},
        {"required": ["rankings"], "properties": {"rankings": _GRADED}},
    ],
    "anyOf": [{"required": ["metrics"]}, {"required": ["online"]}],
}
"""What of a spec has to be there, in the words of a JSON schema."""


class Spec(Model):
    """A spec: which tables are read, which metrics are computed, and by which conventions.

    Raises:
        SpecError: If anything is wrong; all problems are in one message.
    """

    model_config = ConfigDict(json_schema_extra=_FORMS)

    version: Literal[1] = 1
    """The version of this format."""
    name: str = ""
    """What the fact table calls the spec; also the system's name if the rankings have no system
    column. Default: the rankings' own name."""
    rankings: Rankings
    """The ranked items."""
    labels: Labels | None = None
    """The graded items. Without them the rankings have a column of grades."""
    queries: Queries | None = None
    """What is known of queries: text, weight, segments."""
    items: Items | None = None
    """What is known of items: title, category, popularity, users, vector."""
    clicks: Clicks | None = None
    """A click log, in place of rankings and labels."""
    online: _TEXTS = ()
    """Metrics of the log itself, like `ctr@5`; `metrics` may name them too."""
    metrics: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = Field(
        default=(), json_schema_extra=schema.metrics
    )
    """Their texts, like `ndcg@10`, or one text with commas; or a name of your own for arithmetic
    over metrics, like `north_star: 0.7 * ndcg@10 + 0.3 * recall@100`."""
    metrics_from: Annotated[
        MetricFiles,
        PlainSerializer(lambda files: [*files.paths]),
        WithJsonSchema(schema.one_or_list({"type": "string"})),
    ] = MetricFiles()
    """Folders of metrics of your own, a file each; `metrics` may name them like others."""
    preset: str = Field(default="house", json_schema_extra=schema.preset)
    """A named set of conventions."""
    conventions: Annotated[Mapping[str, Any], BeforeValidator(_with_gain_table)] = Field(
        default={}, json_schema_extra=schema.conventions
    )
    """Options that override the preset's. An option of single metrics may have a list of values:
    every metric is then computed once for each."""
    by: _TEXTS = ()
    """Columns of the rankings, segments of `queries`, or names of `segments`, to segment by; each
    is also rolled up to `all`.
    """
    segments: Annotated[Mapping[str, str], BeforeValidator(read_segments)] = {}
    """Segments that are no column, for `by`: name -> a condition on `queries`, or without them on
    the rankings, like `signup_days <= 7`; or `traffic` (head, torso, tail), `relevant_labels`,
    `query_length`.
    """
    cluster: str | None = None
    """A column of the rankings, or a segment of `queries`, whose queries go together: of one user,
    say. Intervals then take the users, not the queries, for independent of each other."""
    confidence: float = Field(default=CONFIDENCE, gt=0, lt=1)
    """The coverage of the intervals in the fact table."""
    baseline: str | None = None
    """The system that the others are compared with, for metrics that compare."""
    output: Output | None = None
    """The tables that `run` writes to."""
    checks: tuple[Threshold, ...] = ()
    """What must hold of the numbers there; `check` looks."""

    def __init__(self, **values: Any) -> None:
        if isinstance(values.get("metrics"), str):
            values = {**values, "metrics": [*metric_texts(values["metrics"])]}
        if values.get("clicks") is not None:
            from sqlmetrics.spec.click_log import lowered

            values = lowered(values)
        if values.get("metrics") is not None and not isinstance(values["metrics"], _InOurWords):
            values = {**values, "metrics": with_name(values["metrics"])}
        if "metrics_from" in values:
            values = {**values, "metrics_from": MetricFiles.read(values["metrics_from"] or ())}
        values, refused = _in_our_words(values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = [*sentences(error), *refused, *_wrong_words(values, error)]
            raise SpecError([*dict.fromkeys(problems)]) from None
        problems = [*refused, *self._problems()]
        if problems:
            raise SpecError(problems)

    @classmethod
    def read(cls, path: str | Path, *, needs_labels: bool = True) -> Spec:
        """Read a spec from a YAML file; its `file:` paths start from the folder of the spec.

        Args:
            path: The file.
            needs_labels: Whether labels are required; if not, a spec without labels has none.

        Raises:
            SpecError: If the file does not exist or is not YAML, or the spec is wrong.
        """
        values = read_yaml(path, f"the spec {str(path)!r}")
        if "track" in values:
            raise SpecError(f"{str(path)!r} is a shared task, not a spec; use sqlmetrics track")
        spec = {"name": Path(path).stem} | {str(key): value for key, value in values.items()}
        _placed(spec, ("rankings", "labels", "queries", "items"), path)
        if isinstance(folders := spec.get("metrics_from"), str | list):
            folders = [folders] if isinstance(folders, str) else folders
            spec["metrics_from"] = [
                resolve_file(path, folder) if _is_folder(folder) else folder for folder in folders
            ]
        if isinstance(spec.get("clicks"), dict):
            spec["clicks"] = dict(spec["clicks"])
            _placed(spec["clicks"], ("impressions", "events", "log", "requests", "ranked"), path)
            for name, sources in _SOURCES_OF_CLICKS.items():
                if isinstance(part := spec["clicks"].get(name), dict):
                    spec["clicks"][name] = part = dict(part)
                    _placed(part, sources, path)
        if not (needs_labels or "clicks" in spec or "labels" in spec or _has_grades(spec)):
            spec["labels"] = no_labels()
        return cls(**spec)

    def having(self, **changed: object) -> Spec:
        """A copy with other values for some keys, checked again; metrics in the house notation."""
        values = {name: getattr(self, name) for name in Spec.model_fields} | changed
        metrics = values["metrics"]
        metrics = (metrics,) if isinstance(metrics, str) else metrics
        our_metrics = _InOurWords(map(self._formula_text, metrics))
        return Spec(**{**values, "metrics": our_metrics})

    @cached_property
    def unfused(self) -> Spec:
        """The same without the systems that `fuse` adds to the rankings.

        A baseline among these is there if what it is made of is.
        """
        if not self.rankings.fuse:
            return self
        run_by_name = {system.name: system.run_names[0] for system in self.rankings.fuse}
        baseline = run_by_name.get(self.baseline or "", self.baseline)
        return self.having(rankings=self.rankings.unfused, baseline=baseline)

    def in_our_words(self, metrics: Iterable[str]) -> tuple[str, ...]:
        """Metrics in the notation of the preset's tool, translated to the house notation.

        Raises:
            SpecError: If the tool has a metric that does not exist here.
        """
        our_metrics, refused = all_in_our_words(map(self._formula_text, metrics), self.preset)
        if refused:
            raise SpecError(refused)
        return tuple(our_metrics)

    @cached_property
    def _formulas(self) -> Mapping[str, Measure]:
        """Names that the spec gives to formulas -> what they stand for."""
        return {str(measure): measure for measure in self.measures if measure.metric.arithmetic}

    def _formula_text(self, text: str) -> str:
        """A metric's text; of the name of a formula the formula too."""
        named = self._formulas.get(text.strip().casefold())
        return text if named is None else named.text

    @cached_property
    def title(self) -> str:
        """The spec's name, given or taken from the rankings."""
        return self.name or self.rankings.name

    @cached_property
    def truth(self) -> Labels:
        """The labels, also where they stand in the rankings themselves."""
        if self.labels is not None:
            return self.labels
        rankings = self.rankings
        columns = rankings.columns.model_dump(include={"query", "item", "grade", "date"})
        keys = ("relation", "sql", "file", "data", "where", "separator", "decimal", "time_zone")
        origin = {key: getattr(rankings, key) for key in keys}
        return Labels(columns=LabelColumns(**columns), grades=rankings.grades, **origin)

    @cached_property
    def options(self) -> Mapping[str, Value]:
        """Every option with the value that holds for the spec."""
        return resolve(self.preset, {n: v for n, v in self._option_values.items() if not _many(v)})

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The metrics, each once, without the settings that are the spec's anyway."""
        measures = [
            self._parse(text) for metric_text in self.metrics for text in spelled_out(metric_text)
        ]
        for name, values in self._option_values.items():
            if _many(values):
                measures = [
                    variant for measure in measures for variant in _once_each(measure, name, values)
                ]
        spelled = (measure.without(self._defaults(measure)) for measure in measures)
        return tuple(dict.fromkeys(spelled))

    def _parse(self, text: str) -> Measure:
        """A metric's text, which may name a file of the spec's own."""
        return parse_beside(text, self.metrics_from.metrics)

    @cached_property
    def components(self) -> tuple[Measure, ...]:
        """The metrics and, in the place of formulas, what these are made of, each once."""
        return tuple(dict.fromkeys(part for named in self.measures for part in named.components))

    @cached_property
    def query_columns(self) -> tuple[str, ...]:
        """The columns that are carried with each query: `by` and `cluster`."""
        cluster_column = (self.cluster,) if self.cluster is not None else ()
        return (*dict.fromkeys((*self.by, *cluster_column)),)

    def measure(self, text: str) -> Measure:
        """The metric of a text: the house's by its name, else as the preset's tool reads it.

        Raises:
            SpecError: If the text is wrong.
        """
        if named := self._formulas.get(text.strip().casefold()):
            return named
        if text in map(str, self.measures):
            return next(candidate for candidate in self.measures if str(candidate) == text)
        our_names = in_our_words(text, self.preset)
        measure = self._parse(our_names[0] if len(our_names) == 1 else text)
        if self._formulas.get(str(measure), measure) != measure:
            formula = self._formulas[str(measure)].metric.formula
            raise SpecError(f"{measure} is {formula} in this spec")
        return measure.without(self._defaults(measure))

    def _defaults(self, measure: Measure) -> Mapping[str, Value]:
        """What holds for a metric whose text says nothing."""
        plain = self.settings(replace(measure, settings=())).measure
        alone: dict[str, Any] = dict(plain.settings)
        return dict(self.options) | alone

    def settings(self, measure: Measure) -> Settings:
        """The settings of a metric: each option and parameter, resolved once."""
        if measure not in self._settings:
            preset = PRESETS[self.preset].metrics.get(measure.metric.name, {})
            bound = measure
            for name, value in preset.items():
                if name not in self.conventions and measure.setting(name) is None:
                    bound = bound.having(name, value)
            widened = OPTIONS["ties"].choice(self.options["ties"]).widens
            if widened and measure.metric.of_set and bound.setting("ties") is None:
                bound = bound.having("ties", self.options["ties"])  # its parts have it from there
            self._settings[measure] = Settings(bound, self.options)
        return self._settings[measure]

    @cached_property
    def _settings(self) -> dict[Measure, Settings]:
        return {}

    @cached_property
    def needed(self) -> Mapping[str, Measure]:
        """What metrics need beside rankings and labels -> the first that needs it."""
        first_by_need: dict[str, Measure] = {}
        for measure in self.components:
            for need in self.needs(measure):
                first_by_need.setdefault(need, measure)
        return first_by_need

    def needs(self, measure: Measure) -> Iterator[str]:
        """What a metric, or a metric in its formula, needs besides rankings and labels."""
        for component in measure.components:
            yield from component.metric.needs
            for choice in self.settings(component).choices:
                yield from choice.data

    @property
    def needs_items(self) -> bool:
        """Whether any metric needs the items table."""
        return any(need.partition(".")[0] == "items" for need in self.needed)

    @property
    def estimated(self) -> tuple[EstimatedMetric, ...]:
        """The metrics of rankings and policies that were not shown, with their estimators."""
        return self.clicks.estimated if self.clicks else ()

    def definition_hash(
        self, metric: Measure | Online | EstimatedMetric, segment: str = ALL
    ) -> str:
        """A short hash of all that decides a metric's numbers in a segment, except the data."""
        return definition_hash(self, metric, segment)

    def definition(
        self, metric: Measure | Online | EstimatedMetric, segment: str = ALL
    ) -> dict[str, Any]:
        """What the hash stands for: conventions, parameters and conditions, as in JSON.

        >>> spec = Spec(rankings={"relation": "r"}, labels={"relation": "l"}, metrics=["mrr"])
        >>> spec.definition(spec.measures[0])["rel"], spec.definition(spec.measures[0])["ties"]
        (1.0, 'id_asc')
        """
        return definition(self, metric, segment)

    def unfit(self, measure: Measure) -> list[str]:
        """Why a valid metric does not fit the options; empty if it fits."""
        if measure.metric.arithmetic:
            return [*self._unfit_formula(measure)]
        problems = []
        settings = self.settings(measure)
        if settings["average"] == "micro" and not measure.metric.micro:
            problems.append(
                f"{measure} has no micro average; set average=micro on metrics that have one, "
                "like recall(average=micro)@10"
            )
        if "gain" in measure.metric.options and not self._uses_rel(measure):
            problems.append(
                f"{measure}: rel does not change the gains; set gain=binary or average_over=hits, "
                "or leave rel out"
            )
        problems += [
            f"{measure}: {name} needs {choice}"
            for name, choice in _of_choices(measure.metric.options).items()
            if measure.setting(name) is not None and not self.settings(measure).reads(name)
        ]
        repeats = self.options["duplicate_rankings"]
        if repeats in ("first", "count") and not measure.metric.by_grades:
            problems.append(
                f"{measure} needs each item once; set duplicate_rankings=best_score instead of "
                f"{repeats}"
            )
        if self._weighted and not measure.adds_up:
            problems.append(f"{measure} cannot be weighted; leave out the weight")
        if measure.is_geometric and (limits(measure.metric.range)[0] or 0) < 0:
            problems.append(
                f"{measure}: values below 0 have no geometric mean; leave out the average"
            )
        if settings.weighs and measure.no_mean:
            problems.append(
                f"{measure}: only a mean can weigh queries; leave out the weight or the average"
            )
        return problems + self._unmet(measure)

    def _unfit_formula(self, measure: Measure) -> Iterator[str]:
        """Why a formula does not fit the options, or a metric is no part of one."""
        for component in measure.components:
            if not (self.settings(component).is_mean or component.metric.count):
                yield (
                    f"{component}: a formula needs a plain mean over queries; leave out its "
                    "average or weights"
                )
            else:
                yield from self.unfit(component)
        settings = {name for part in measure.components for name in part.metric.settings}
        for name, values in self._option_values.items():
            if _many(values) and name in settings:
                remedy = "set it on other metrics, like mrr(average=median)"
                yield (
                    f"{measure}: a formula is one number, but {name} is "
                    f"{', '.join(map(str, values))}; "
                    f"{remedy if name == 'average' else 'write it on the metrics in it'}"
                )
        if measure.column in {name.casefold() for name in self.query_columns}:
            yield f"{measure} is also the name of a segment; choose another name"

    @cached_property
    def _option_values(self) -> Mapping[str, Any]:
        """The options as given, read; a list where metrics' texts say which value is theirs."""
        return {
            name: tuple(read(name, element) for element in value)
            if _many(value)
            else _spelled(name, value)
            for name, value in self.conventions.items()
        }

    def _problems(self) -> list[str]:
        """All that pydantic cannot know: metrics, options, and how they go together."""
        if not (self.metrics or self.online):
            state = "is empty" if "metrics" in self.model_fields_set else "is missing"
            return [f"metrics {state}; name at least one, like ndcg@10"]
        problems = _wrong_preset(self.preset)
        try:
            problems += [
                p for name, value in self._option_values.items() for p in _option(name, value)
            ]
        except SpecError as error:
            problems += error.problems
        return problems + self._wrong_metrics() or self._misfits()

    def _wrong_metrics(self) -> list[str]:
        """Texts that are no metric."""
        problems = list[str]()
        for text in (text for metric_text in self.metrics for text in spelled_out(metric_text)):
            try:
                self._parse(text)
            except SpecError as error:
                names = "known: "
                if self.clicks:  # first, since the metrics of lists alone fill a message
                    names += f"of the log itself: {', '.join(sorted(ONLINE))}; of lists: "
                is_name = error.problems[0].startswith("unknown metric")
                problems += [
                    problem.replace("known: ", names, 1) if is_name else problem
                    for problem in error.problems
                ]
        measures = list[Online]()
        for text in self.online:
            try:
                measures.append(online(text))
            except SpecError as error:
                problems += error.problems
        return problems + list(self._wrong_actions(measures))

    def _wrong_actions(self, measures: Iterable[Online]) -> Iterator[str]:
        """Metrics of actions that no column of a wide log tells, or that would share their own."""
        log = self.clicks.log if self.clicks else None
        by_column = dict[str, Online]()
        for measure in measures:
            other = by_column.setdefault(measure.column, measure)
            if str(other) != str(measure):
                shared = f"would share the column {measure.column}; leave one out"
                yield f"{other} and {measure} {shared}"
            if (
                measure.action
                and log
                and measure.action not in (column_by_action := log.columns.column_by_action)
            ):
                problem = unknown("action of log.columns.actions", measure.action, column_by_action)
                yield f"{measure}: {problem}"

    def _misfits(self) -> list[str]:
        """Metrics, each right in itself, that do not fit the options or one another."""
        folded = [name.casefold() for name in self.by]
        problems = ["a segment column cannot be called all; rename it"] if "all" in folded else []
        if len(set(folded)) < len(folded):
            problems.append(f"by names a column twice: {', '.join(self.by)}")
        if self.clicks:
            user = self.clicks.columns.user if self.clicks.columns else None
            of_user = (user,) if user else ()
            segment_names = dict.fromkeys((*self.clicks.segments, *self.segments, *of_user))
            key = f"clicks.{'log' if self.clicks.log else 'impressions'}.columns.segments"
            hint = f" (and the segments of {key})" if self.clicks.columns else ""
            wrong = (name for name in self.query_columns if name not in segment_names)
            problems += [
                (
                    f"{'cluster' if name == self.cluster else 'by'}: "
                    f"{unknown('segment', name, segment_names)}{hint}"
                )
                for name in wrong
            ]
        if (self.labels is None) != (self.rankings.columns.grade is not None):
            problems.append(
                "give either labels or rankings.columns.grade, the grades in the rankings"
            )
        if self.rankings.grades and self.rankings.columns.grade is None:
            problems.append(
                "rankings.grades: the rankings have no column of grades; name it as "
                "rankings.columns.grade"
            )
        problems += self._unlike_baseline()
        columns: dict[str, Measure] = {}
        for measure in self.measures:
            problems += self.unfit(measure)
            same_column = columns.setdefault(measure.column, measure)
            if same_column != measure:
                problems.append(
                    f"{same_column.text} and {measure.text} would share the column "
                    f"{measure.column}; give one of them a name, like best = {measure.text}"
                )
        return problems

    def _unlike_baseline(self) -> Iterator[str]:
        """A baseline where no row has a system, and checks that need another one."""
        if self.clicks and self.baseline is not None and self.rankings.columns.system is None:
            key = f"clicks.{'log' if self.clicks.log else 'impressions'}.columns.system"
            yield f"baseline {self.baseline!r} is a system; name the column of systems as {key}"
        for threshold in self.checks:
            yield from threshold.unfit(self.baseline)
            if threshold.experiment is not None:
                yield from self._unlike_experiment(threshold)
        names = [system.name for system in self.rankings.fuse]
        if self.rankings.fused_only and self.baseline not in (None, *names):
            yield f"baseline: fused_only leaves {', '.join(names)}, given {self.baseline!r}"

    def _unlike_experiment(self, threshold: Threshold) -> Iterator[str]:
        """Why a check of an experiment does not fit that of the log."""
        experiment, check_name = (
            self.clicks.experiment if self.clicks else None,
            threshold.experiment,
        )
        if experiment is None:
            yield (
                f"checks: experiment: {check_name}: the spec has none; add clicks: {{experiment: "
                "{variants: [old, new], control: old, primary: ctr@5}}"
            )
        elif check_name == "guardrails" and not experiment.guardrails:
            yield (
                f"checks: experiment: {check_name}: there are none; add to clicks.experiment "
                "guardrails: [{metric: abandonment, max_drop_pct: 2}]"
            )
        elif threshold.system not in (None, *experiment.variants):
            problem = unknown("variant", str(threshold.system), experiment.variants)
            yield f"checks: experiment: {problem}"

    def _unmet(self, measure: Measure) -> list[str]:
        """What a metric's choices need and do not have."""
        settings = self.settings(measure)
        all_orders = settings.choice("ties").all_orders
        is_whole_list = self.options["depth"] == "none"
        known_by_rule = {
            "always": True,
            "uncut": measure.k is None,
            "whole": is_whole_list,
            "never": False,
        }
        state_by_need = {
            "a cutoff": measure.k is not None,
            "a cutoff of at most 1,000,000": (measure.k or 0) <= 1_000_000,
            "gain=binary": settings["gain"] == "binary",
            "one order of ties": not all_orders,
            "one order of ties for terms of DCG": not all_orders
            or "gain" not in measure.metric.options,
            "no depth with ties=average": not all_orders or is_whole_list,
        }
        problems = []
        if all_orders and self.options["duplicate_rankings"] == "first":
            problems.append(
                f"{measure}: duplicate_rankings=first needs one order of ties; set ties to "
                "something other than average"
            )
        if all_orders and not known_by_rule[measure.metric.expected]:
            problems.append(
                f"{measure}: its mean over all orders of ties is not known; set ties to something "
                "other than average"
            )
        for name in (name for name in measure.metric.settings if name in OPTIONS):
            choice = settings.choice(name)
            unmet = [need for need in choice.needs if not state_by_need[need]]
            problems += [f"{measure}: {name}={choice.name} needs {need}" for need in unmet]
        return problems

    @property
    def _weighted(self) -> bool:
        query_weight = self.queries.columns.weight if self.queries else None
        return (self.rankings.columns.weight or query_weight) is not None

    def _uses_rel(self, measure: Measure) -> bool:
        if measure.setting("rel") is None:
            return True
        settings = self.settings(measure)
        return settings["gain"] == "binary" or bool(settings.choice("average_over").part)


def _of_choices(options: Iterable[str]) -> dict[str, str]:
    """The parameters that options bring -> the choice that reads each, as it is written."""
    choices = ((name, choice) for name in options for choice in OPTIONS[name].choices)
    return {
        parameter: f"{name}={choice.name}"
        for name, choice in choices
        for parameter in choice.parameters
    }


def _has_grades(spec: Mapping[str, Any]) -> bool:
    """Whether the keys of a spec say that its rankings have a column of grades."""
    rankings = spec.get("rankings")
    columns = rankings.get("columns") if isinstance(rankings, dict) else None
    return isinstance(columns, dict) and "grade" in columns


_SOURCES_OF_CLICKS = {
    "counterfactual": ("rankings", "policy"),
    "interleaving": ("rankings",),
    "experiment": ("lists",),
}
"""Key under `clicks` -> its keys that may name files."""


def _placed(values: dict[str, Any], tables: Iterable[str], path: str | Path) -> None:
    """Let the files of tables start from the spec's own folder."""
    for table in tables:
        if isinstance(values.get(table), dict) and isinstance(values[table].get("file"), str):
            values[table] = values[table] | {"file": resolve_file(path, values[table]["file"])}
            note_read(values[table]["file"])


def _many(value: object) -> bool:
    return isinstance(value, list | tuple)


def _spelled(name: str, value: Any) -> Any:
    """An option's value, read; in a list if it makes another number that has to say so.

    A fact table's reader must see of a row that it is a median or so, and does not add up.
    """
    parsed = read(name, value)
    choices = OPTIONS[name].choices if name in OPTIONS else ()
    return parsed if all(c.adds_up for c in choices if c.name == parsed) else (parsed,)


def _once_each(measure: Measure, name: str, values: tuple[Value, ...]) -> list[Measure]:
    """A measure with each value of an option, unless its own text sets that option."""
    if name not in measure.metric.settings or measure.setting(name) is not None:
        return [measure]
    return [measure.having(name, value) for value in values]


def _in_our_words(values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What is given, with the names of metrics as the preset's tool has them read.

    Returns:
        What is given, and what is wrong with names that are refused.
    """
    metrics, preset = values.get("metrics"), values.get("preset") or "house"
    texts: Any = _as_tuple(metrics)
    are_texts = isinstance(texts, tuple | list) and all(isinstance(text, str) for text in texts)
    if isinstance(texts, _InOurWords) or not are_texts or not isinstance(preset, str):
        return values, []
    files = _files(values)
    of_files = {text for text in texts if re.split(r"[@(]", text)[0].strip().casefold() in files}
    our_metrics, refused = all_in_our_words(texts, preset, of_files)
    if refused and not our_metrics:
        raise SpecError(refused)
    return {**values, "metrics": our_metrics}, refused


def _is_folder(path: object) -> bool:
    """Whether an element of `metrics_from` is a path, and no package's name."""
    return isinstance(path, str) and not path.startswith(PACKAGE)


def _files(values: Mapping[str, Any]) -> Mapping[str, Metric]:
    """The metrics of the user's own."""
    return values.get("metrics_from", MetricFiles()).metrics  # type: ignore[no-any-return]


def _wrong_preset(preset: str) -> list[str]:
    return [] if preset in PRESETS else [unknown("preset", preset, PRESETS)]


def _wrong_words(values: Mapping[str, Any], error: ValidationError) -> Iterator[str]:
    """What is wrong with metrics, preset and conventions of a spec with wrong keys."""
    wrong = {str(key) for problem in error.errors() for key in problem["loc"][:1]}
    valid_values = {
        name: values[name]
        for name in ("metrics", "preset", "conventions")
        if name in values and name not in wrong
    }
    if "preset" in valid_values:
        yield from _wrong_preset(valid_values["preset"])
    for name, value in valid_values.get("conventions", {}).items():
        try:
            yield from _option(name, value)
        except SpecError as problem:
            yield from problem.problems
    texts = valid_values.get("metrics", ())
    for text in (texts,) if isinstance(texts, str) else texts:
        for metric in spelled_out(text):
            is_of_log = values.get("clicks") is not None and is_online(metric)
            try:
                online(metric) if is_of_log else parse_beside(metric, _files(values))
            except SpecError as problem:
                yield from problem.problems


def _option(name: str, value: Any) -> list[str]:
    """What is wrong with one convention of a spec."""
    if not _many(value):
        return problems_of(name, value)
    if name in OPTIONS and OPTIONS[name].scope == "spec":
        return [f"{name} applies to all metrics; give one value, not a list"]
    if not value:
        return [f"{name}: the list of values is empty; give one or more"]
    return [problem for element in value for problem in problems_of(name, element)]


def sentences(error: ValidationError, *path: str, model: type[Model] | None = None) -> list[str]:
    """What pydantic found wrong, in our words.

    Args:
        error: What it raised.
        path: Where in a spec the model stands, like `rankings`; nothing for a spec.
        model: The model of the whole file. Default: a spec.
    """
    problems_by_path: dict[tuple[Any, ...], list[Any]] = {}
    for problem in _closest(_telling(error.errors())):
        problems_by_path.setdefault((*path, *_path(problem)), []).append(problem)
    texts = (
        text
        for place, problems in problems_by_path.items()
        for text in _texts(place, problems, model or Spec)
    )
    return list(dict.fromkeys(texts))


def _telling(problems: Iterable[Any]) -> list[Any]:
    """Without the emptiness that pydantic finds because all that was given is wrong."""
    problems = list(problems)
    lists = {problem["loc"][:-1] for problem in problems}
    return [p for p in problems if p["type"] != "too_short" or p["loc"] not in lists]


def _closest(problems: Iterable[Any]) -> Iterator[Any]:
    """Where a value is of none of several types, what is wrong by the types that come closest."""
    problems_by_value: dict[tuple[Any, ...], list[Any]] = {}
    for problem in problems:
        tags = [place for place, part in enumerate(problem["loc"]) if _is_type(part)]
        value = problem["loc"][: tags[0]] if tags else problem["loc"]
        problems_by_value.setdefault(value, []).append(problem)
    for of_value in problems_by_value.values():
        depth = max(len(_path(problem)) for problem in of_value)
        yield from (problem for problem in of_value if len(_path(problem)) == depth)


def _path(problem: Any) -> tuple[Any, ...]:
    """The keys that lead to a value, without the types that pydantic tried."""
    return tuple(part for part in problem["loc"] if part != "[key]" and not _is_type(part))


def _is_type(part: object) -> bool:
    return isinstance(part, str) and _TYPE.fullmatch(part) is not None


_TYPE = re.compile(r"int|str|float|constrained-\w+|(?:literal|dict|list|tuple|function-\w+)\[.*")
"""What pydantic names the types of a value that may be of several, within the path to it."""


def _texts(path: tuple[Any, ...], problems: list[Any], model: type[Model]) -> Iterator[str]:
    """The problems of one value in our words."""
    kinds = [
        _KINDS[problem["type"]].format(**problem.get("ctx", {}))
        for problem in problems
        if problem["type"] in _KINDS
    ]
    if kinds:
        kind = " or ".join(dict.fromkeys(kinds))
        yield f"{_title(path)} must be {kind}, given {problems[0]['input']!r}"
    for problem in problems:
        if problem["type"] not in _KINDS:
            yield _sentence(path, problem, model)


def _title(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path)) or "spec"


def _sentence(path: tuple[Any, ...], problem: Any, model: type[Model]) -> str:
    """A problem that is not the type of a value."""
    title = _title(path)
    if problem["type"] == "extra_forbidden":
        return _unknown_key(model, path[:-1], path[-1])
    if problem["type"] == "missing":
        return f"{title} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    if title != "clicks" and repr(problem["input"]) not in message:
        message += f", given {problem['input']!r}"
    return f"{title}{':' if message.startswith('unknown ') else ''} {message}"


def _unknown_key(model: type[Model], places: Sequence[Any], key: object) -> str:
    for section in (part for part in places if isinstance(part, str)):  # of a list, what it is of
        model = _model(model.model_fields[section].annotation)
    field_names = [name for name, field in model.model_fields.items() if not field.exclude]
    location = f" (in {'.'.join(map(str, places))})" if places else ""
    return unknown("key", key, field_names) + location


def _model(annotation: Any) -> Any:
    """The model among the types that a field may have, or a tuple of it; None if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, Placeholder):
        return annotation.model()
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    return next((model for kind in get_args(annotation) if (model := _model(kind))), None)


_DAY, _TIME = "a day, like 2026-11-01", "a time, like 2026-11-01T18:00:00Z"
_KINDS = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 18 digits",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "string_type": "a text",
    "tuple_type": "a list",
    "too_short": "a list of at least {min_length}",
    "dict_type": "keys and values",
    "mapping_type": "keys and values",
    "too_long": "one key and its value",
    "model_type": "keys and values, like {{file: runs.parquet}}",
    "model_attributes_type": "keys and values, like {{file: runs.parquet}}",
    "literal_error": "{expected}",
    "date_type": _DAY,
    "date_parsing": _DAY,
    "date_from_datetime_parsing": _DAY,
    "date_from_datetime_inexact": _DAY,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "datetime_object_invalid": _TIME,
}
"""pydantic's name of a problem -> what the value must be."""

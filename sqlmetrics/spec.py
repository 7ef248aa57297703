"""What the user asks: two tables, their columns, metrics and conventions; checked on creation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sqlmetrics.conventions import OPTIONS, PRESETS, Value, problems_of, read, resolve
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.measure import Measure, parse


class _Model(BaseModel):
    """Frozen, with unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class RankingColumns(_Model):
    """The columns of the rankings: exactly one of score and rank orders a list."""

    query: str = "query_id"
    item: str = "item_id"
    score: str | None = None
    rank: str | None = None
    system: str | None = None
    date: str | None = None
    weight: str | None = None

    @model_validator(mode="after")
    def _one_order(self) -> RankingColumns:
        if self.score and self.rank:
            raise ValueError("give score or rank, not both")
        return self

    @property
    def order(self) -> str:
        """The column that orders a list."""
        return self.rank or self.score or "score"


class LabelColumns(_Model):
    """The columns of the labels; without a date they hold for every day."""

    query: str = "query_id"
    item: str = "item_id"
    grade: str = "grade"
    date: str | None = None


class Source(_Model):
    """Where a table is: a relation of the database, a query, a file, or data in memory.

    Attributes:
        relation: The name of a table or view, with its schema where it has one.
        sql: A `select` statement.
        file: A path of Parquet, CSV or TREC text; .gz and globs are understood.
        data: A pandas or polars DataFrame, or anything that speaks Arrow.
    """

    relation: str | None = None
    sql: str | None = None
    file: str | None = None
    data: Any = Field(default=None, exclude=True, repr=False)

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        places = (self.relation, self.sql, self.file, self.data)
        if sum(place is not None for place in places) != 1:
            raise ValueError("give exactly one of relation, sql and file")
        return self

    @property
    def name(self) -> str:
        """A short name for it: the file's or the relation's own, else `rankings`."""
        if self.file:
            return Path(self.file).name.split(".")[0] or "rankings"
        return (self.relation or "rankings").strip('"').replace('""', '"')


class Rankings(Source):
    """Rows (query, item, score or rank [, system, date, weight, segments])."""

    columns: RankingColumns = RankingColumns()


class Labels(Source):
    """Rows (query, item, grade [, date])."""

    columns: LabelColumns = LabelColumns()


class Spec(_Model):
    """An evaluation: what is ranked, what is relevant, which metrics, by which conventions.

    Attributes:
        rankings: The ranked items.
        labels: The graded items.
        metrics: Their texts, like `ndcg@10`.
        preset: A named set of conventions.
        conventions: Options that override the preset's. An option of single metrics may
            have a list of values: every metric is then computed once for each.
        by: Columns of the rankings to segment by, each also rolled up to `all`.
        name: What the fact table calls the spec; also the system's name if the rankings
            have no system column. Default: the rankings' own name.

    Raises:
        SpecError: With everything that is wrong, in one message.
    """

    version: int = 1
    name: str = ""
    rankings: Rankings
    labels: Labels
    metrics: tuple[str, ...] = Field(min_length=1)
    preset: str = "house"
    conventions: Mapping[str, Any] = {}
    by: tuple[str, ...] = ()

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise SpecError([_sentence(problem) for problem in error.errors()]) from None
        problems = self._problems()
        if problems:
            raise SpecError(problems)

    @classmethod
    def read(cls, path: str | Path) -> Spec:
        """The spec of a YAML file; its `file:` paths start from the spec's own folder.

        Raises:
            SpecError: If there is no such file, it is no YAML, or the spec is wrong.
        """
        import yaml

        try:
            given = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise SpecError(f"cannot read the spec {str(path)!r}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise SpecError(f"the spec {str(path)!r} is not YAML: {error}") from None
        if not isinstance(given, dict):
            raise SpecError(f"the spec {str(path)!r} must be a mapping of keys to values")
        spec = {"name": Path(path).stem} | {str(key): value for key, value in given.items()}
        for table in ("rankings", "labels"):
            if isinstance(spec.get(table), dict) and isinstance(spec[table].get("file"), str):
                spec[table] = spec[table] | {"file": str(Path(path).parent / spec[table]["file"])}
        return cls(**spec)

    @cached_property
    def title(self) -> str:
        """The spec's name, given or taken from the rankings."""
        return self.name or self.rankings.name

    @cached_property
    def options(self) -> Mapping[str, Value]:
        """Every option with the value that holds for the spec."""
        return resolve(self.preset, {n: v for n, v in self._given.items() if not _many(v)})

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The metrics, each once, without the settings that are the spec's anyway."""
        measures = [parse(text) for text in self.metrics]
        for name, values in self._given.items():
            if _many(values):
                measures = [
                    measure.having(name, value) if name in measure.metric.settings else measure
                    for measure in measures
                    for value in values
                ]
        return tuple(dict.fromkeys(measure.without(self.options) for measure in measures))

    def measure(self, text: str) -> Measure:
        """The measure that a text means in this spec.

        Raises:
            SpecError: If the text is wrong.
        """
        return parse(text).without(self.options)

    def value(self, measure: Measure, option: str) -> Value:
        """An option's value for one measure: its own, else the spec's."""
        own = measure.setting(option)
        return self.options[option] if own is None else own  # type: ignore[return-value]

    def parameter(self, measure: Measure, name: str) -> float:
        """A parameter's value for one measure: its own, else the metric's default."""
        own = measure.setting(name)
        return measure.metric.parameters.get(name, 1) if own is None else own  # type: ignore[return-value]

    def definition_hash(self, measure: Measure) -> str:
        """A short hash of all that decides a metric's numbers, the data apart."""
        settings = {name: self.parameter(measure, name) for name in measure.metric.parameters}
        decided = settings | {
            name: self.value(measure, name)
            for name, option in OPTIONS.items()
            if option.scope == "spec" or name in measure.metric.settings
        }
        text = f"{measure.metric.name}@{measure.k} {sorted(decided.items())}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def _given(self) -> Mapping[str, Any]:
        """The options as given, read; a list where several values are asked for."""
        return {
            name: tuple(read(name, one) for one in value) if _many(value) else read(name, value)
            for name, value in self.conventions.items()
        }

    def _problems(self) -> list[str]:
        """All that pydantic cannot know: metrics, options, and how they go together."""
        problems = [] if self.preset in PRESETS else [unknown("preset", self.preset, PRESETS)]
        try:
            problems += [p for name, value in self._given.items() for p in _option(name, value)]
        except SpecError as error:
            problems += error.problems
        for text in self.metrics:
            try:
                parse(text)
            except SpecError as error:
                problems += error.problems
        return problems or self._misfits()

    def _misfits(self) -> list[str]:
        """Metrics, each right in itself, that do not fit the options or one another."""
        problems = []
        columns: dict[str, Measure] = {}
        for measure in self.measures:
            if self.value(measure, "average") == "micro" and not measure.metric.micro:
                problems.append(
                    f"{measure} has no micro average; set average=micro on the metrics that "
                    "have one, like recall(average=micro)@10"
                )
            if "gain" in measure.metric.options and not self._uses_rel(measure):
                problems.append(
                    f"{measure}: rel does not touch the gains; it needs gain=binary or "
                    "average_over=hits"
                )
            other = columns.setdefault(measure.column, measure)
            if other != measure:
                problems.append(f"{other} and {measure} would share the column {measure.column}")
        return problems

    def _uses_rel(self, measure: Measure) -> bool:
        if measure.setting("rel") is None:
            return True
        return (
            self.value(measure, "gain") == "binary" or self.value(measure, "average_over") == "hits"
        )


def _many(value: object) -> bool:
    return isinstance(value, list | tuple)


def _option(name: str, value: Any) -> list[str]:
    """What is wrong with one convention of a spec."""
    if not _many(value):
        return problems_of(name, value)
    if name in OPTIONS and OPTIONS[name].scope == "spec":
        return [f"{name} holds for all metrics: give one value, not a list"]
    return [problem for one in value for problem in problems_of(name, one)]


def _sentence(problem: Any) -> str:
    """One of pydantic's errors in our words."""
    *places, last = problem["loc"] or ("spec",)
    where = ".".join(str(place) for place in problem["loc"]) or "spec"
    if problem["type"] == "extra_forbidden":
        model: Any = Spec
        for place in places:
            model = model.model_fields[place].annotation
        inside = f" in {'.'.join(map(str, places))}" if places else ""
        return unknown(f"key{inside}", last, model.model_fields)
    if problem["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {problem['msg'].removeprefix('Value error, ')}, given {problem['input']!r}"

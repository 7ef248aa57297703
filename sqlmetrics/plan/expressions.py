"""What a metric's template sees: its settings, its parts and its rows, as SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure, word
from sqlmetrics.catalog.metric import label_column
from sqlmetrics.catalog.option import Choice, GainTable
from sqlmetrics.plan.row_columns import RowColumns, in_middle, place_in_group, share_of_group
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import case, double, identifier, number

# How readers of a list go on: the formulas of user models, as SQL.

SURELY_GONE = "-1e3"
"""Stands for the logarithm of 0, which databases refuse."""

FIRST = 6
FACTORS = (1.0, *(n**4 / (16 * n * n - 4) for n in range(1, 6)))
"""The trigamma function: of the continued fraction of what follows its first terms, half a step
below the next of them."""


def inverse_squares(start: str) -> str:
    """The sum of 1 / (start + n)^2 over n = 0, 1, 2 ... as SQL, right to 6e-13 of itself.

    Args:
        start: SQL of a number of 1 or more.
    """
    first = [f"power({start}{f' + {n}' * (n > 0)}, -2)" for n in range(FIRST)]
    middle = f"({start} + {number(FIRST - 0.5)}"
    fractions = [f"{double(factor)} / {middle}" for factor in FACTORS]
    return "\n+ ".join(first + fractions) + ")" * len(fractions)


def sum_of_inverse_squares(start: float) -> float:
    """The same as a number, to 16 digits.

    >>> round(sum_of_inverse_squares(1), 15) == round(math.pi**2 / 6, 15)
    True
    """
    middle = rest = start + 39.5
    for factor in reversed(FACTORS[1:]):
        rest = middle + factor / rest
    return math.fsum([*((start + n) ** -2 for n in range(40)), 1 / rest])


def log_of_rest_expected(gain: str, expectation: str, t: float) -> str:
    """The logarithm of (1 - gain / expectation)^2, `SURELY_GONE` if that is 0."""
    log = f"2e0 * ln(1e0 - {gain} / {expectation})"
    if t > 0.5:  # no gain is as much as is expected
        return log
    return case(f"{gain} < {expectation} - 1e-9", log, SURELY_GONE)


def novelty(alpha: float, n_seen: str, most: int | None) -> str:
    """(1 - alpha)^seen as SQL, 0 where that is below e^-150: its square would be too small.

    Args:
        alpha: From 0, where nothing fades, to 1, where the first time alone counts.
        n_seen: The column of how often a group came before.
        most: What `n_seen` is always below; None if nobody knows.
    """
    if alpha in (0, 1):
        return case(f"{n_seen} = 0e0", "1e0") if alpha else "1e0"
    power, last = f"power({double(1 - alpha)}, {n_seen})", last_power(1 - alpha)
    return power if most and most <= last else case(f"{n_seen} < {last}e0", power)


def last_power(base: float) -> int:
    """The last rank at which a base, to the power of the ranks above, is not below e^-150."""
    return 1 + int(150 / -math.log(base))


WHOLE_LIST = "@list"
"""Behind a part's name in a header: the part has no cutoff."""

GRADED = ("ranked", "ideal_shown", "group_hits", "shown_groups", "evidence", "ideal_agreement")
"""Relations of the items of a list whose grades, or groups, are looked at."""

OF_LABELLING = ("num_ret", "num_judged", "every_returned_dcg")
"""The sums over a list that look at no grade."""


class MetricContext:
    """A metric, its settings and the texts of its parts, each made when it is asked for.

    Its parameters and its parts, with what options add to them, are attributes by the
    names that its header gives them.

    Args:
        spec: Whose conventions hold.
        measure: The metric.
        part: Gives the text of another metric that this one is made of.
    """

    def __init__(self, spec: Spec, measure: Measure, part: Callable[[Measure], str]) -> None:
        self.measure = measure
        self.k = measure.k
        self._spec = spec
        self._settings = spec.settings(measure)
        self._part = part

    def __getattr__(self, name: str) -> str:
        if name in self.measure.metric.parameters:
            return double(self._settings.parameter(name))
        terms = list(self._terms(name))
        if not terms:
            raise AttributeError(name)
        return terms[0] if len(terms) == 1 else f"({_added(terms)})"

    def _terms(self, part: str) -> Iterator[str]:
        """A part, and what the metric's options add to it."""
        if part in self.measure.metric.parts:
            yield self._part(part_of(self.measure, part))
        for choice in self._settings.choices:
            if part in choice.adds:
                yield choice.adds[part].format_map(_Fields(self))

    def by(self, option: str, **fields: str) -> str:
        """The text of an option's choice, with the metric's own parts in it, or other fields."""
        choice = self.choice(option)
        text = choice.uncut if choice.uncut and self.k is None else choice.sql
        return text.format_map(_Fields(self, **fields))

    def choice(self, option: str) -> Choice:
        """What holds for the metric."""
        return self._settings.choice(option)

    @property
    def relevant(self) -> str:
        """The condition of a relevant item."""
        return f"grade >= {number(self._rel)}"

    @property
    def size(self) -> str:
        """How many items the top k has room for: k, or more where more tie with the k-th."""
        if not self.widened:
            return f"{self.k}e0"
        return f"case when {self.returned} > {self.k}e0 then {self.returned} else {self.k}e0 end"

    @property
    def widened(self) -> bool:
        """Whether the top k holds all items that tie with the k-th."""
        ties = self.measure.setting("ties")
        return ties is not None and OPTIONS["ties"].choice(ties).widens

    @property
    def suffix(self) -> str:
        """What the names of columns about relevant items end in."""
        return "" if self._rel == 1 else f"_rel{word(self._rel)}"

    @property
    def _rel(self) -> float:
        return self._settings.parameter("rel")

    @property
    def every_novelty(self) -> str:
        """The most that a group can add in the top k: every item is of it, as a number."""
        remaining_share = 1 - self._settings.parameter("alpha")
        return double(
            sum(remaining_share ** (rank - 1) * self._weight(rank) for rank in self._ranks)
        )

    @property
    def every_discount(self) -> str:
        """The sum of the discounts of ranks 1 to k, as a number."""
        cut = self.choice("rounding").cut
        return double(sum(cut(self._weight(rank)) for rank in self._ranks))

    @property
    def every_weight(self) -> str:
        """The same, whatever terms of DCG are rounded to."""
        return double(sum(self._weight(rank) for rank in self._ranks))

    @property
    def first_expectation(self) -> str:
        """What a reader of INST expects before the first rank: 2t."""
        return double(2 * self._settings.parameter("t"))

    @property
    def every_insq_weight(self) -> str:
        """The sum of INSQ's weights of ranks 1 to k, or of all ranks, as a number."""
        start = 2 * self._settings.parameter("t")
        below = sum_of_inverse_squares(start + self.k) if self.k else 0.0
        return double(sum_of_inverse_squares(start) - below)

    inverse_squares = staticmethod(inverse_squares)

    @property
    def _ranks(self) -> range:
        return range(1, (self.k or 0) + 1)

    def _weight(self, rank: int) -> float:
        """What a rank is worth, as a number."""
        parameters = {
            name: self._settings.parameter(name) for name in self.measure.metric.parameters
        }
        return self.choice("discount").weight(rank, parameters)


class RowContext(MetricContext):
    """The same for a metric that is a sum over rows: what it reads of a row.

    Args:
        spec: Whose conventions hold.
        measure: The metric.
        part: Gives the text of another metric, beside a row.
        rows: What is asked of the rows is noted here.
    """

    def __init__(
        self, spec: Spec, measure: Measure, part: Callable[[Measure], str], rows: RowColumns
    ) -> None:
        super().__init__(spec, measure, part)
        self._rows = rows
        is_list = measure.metric.over == "ranked"
        self._all_orders = is_list and self.choice("ties").all_orders
        rows.in_order |= not self._all_orders

    @property
    def grade(self) -> str:
        """The grade of the item."""
        return self._mean("grade", self._grade)

    @property
    def _grade(self) -> str:
        """The grade as SQL; in an ideal order, 0 for a label that counts as none."""
        over, policy = self.measure.metric.over, self._spec.options["negative_grades"]
        of_labels = over in ("ideal", "ideal_returned")
        return "coalesce(grade, 0e0)" if of_labels and policy == "unjudged" else "grade"

    @property
    def judged(self) -> str:
        """1 if the item has a label, else 0."""
        self._rows.judged = True
        return self._mean("judged", "judged")

    @property
    def gain(self) -> str:
        """What the grade is worth."""
        gain = self._settings["gain"]
        if isinstance(gain, GainTable):
            pairs = [f"when {number(grade)} then {double(gain[grade])}" for grade in gain]
            text = f"case {self._grade} {' '.join(pairs)} else 0e0 end"
        else:
            text = self.choice("gain").sql.format(grade=self._grade, relevant=self.relevant)
        return self._mean(f"gain_{word(gain)}" + self.suffix * (gain == "binary"), text)

    @property
    def term(self) -> str:
        """Gain x discount."""
        return self._rounded(f"{self.gain} * {self.discount('rnk')}")

    def rank_term(self, rank: str) -> str:
        """The same of a relevant item at a rank, whose gain is 1."""
        return self._rounded(self.discount(rank))

    def _rounded(self, value: str) -> str:
        """A term of DCG, as `rounding` has it."""
        term = self.choice("rounding").term
        return value if term == "{value}" else term.format(value=f"({value})")

    def discount(self, rank: str) -> str:
        """What a rank is worth."""
        text = self.choice("discount").sql
        placeholders = {"p": self.p, "last": self._last} if "{p}" in text else {}
        return text.format(rank=rank, **placeholders)

    @property
    def _last(self) -> int:
        """The last rank where p^(rank - 1) is above e^-300.

        Some databases refuse what is too small for 64 bits, and so would be the square.
        """
        return 1 + int(300 / -math.log(self._settings.parameter("p")))

    @property
    def hits_so_far(self) -> str:
        """How many relevant items there are down to a relevant row."""
        count = self._rows.expected_hits if self._all_orders else self._rows.running
        return count(self.suffix, self.relevant)

    @property
    def above(self) -> str:
        """The sum, over the rows above, of what the metric's macro `above` says of a row."""
        name = f"{self.measure.formula.column}_above"
        return self._rows.sum_above(name, self.measure.metric.sql("above", self))

    def sum_above(self, name: str, value: str) -> str:
        """The sum of a value over the rows above, NULL for the first."""
        return self._rows.sum_above(f"{name}_above", value)

    @property
    def in_pool(self) -> str:
        """1 if the item has a label, also one that counts as none, else 0."""
        self._rows.in_pool = True
        return "in_pool"

    @property
    def log_of_rest(self) -> str:
        """The logarithm of 1 - the chance to stop at the item, `SURELY_GONE` if that is 1."""
        chance, log = self.by("stop"), f"ln(1e0 - {self.by('stop')})"
        if self.choice("stop").name == "exp":  # below 1 for every grade there may be
            return log
        return f"case when {chance} < 1e0 then {log} else {SURELY_GONE} end"

    @property
    def expectation(self) -> str:
        """What a reader of INST expects before a rank: 2t + the ranks above - what they gained."""
        name = f"{self.measure.formula.column}_missed"
        missed = self.sum_above(name, f"1e0 - grade / {self.max_grade}")
        return f"({self.first_expectation} + coalesce({missed}, 0e0))"

    @property
    def log_of_rest_expected(self) -> str:
        """The logarithm of what an item leaves of what a reader of INST expects, squared."""
        gain = f"grade / {self.max_grade}"
        return log_of_rest_expected(gain, self.expectation, self._settings.parameter("t"))

    def still_reading(self, value: str, by_rank: str = "") -> str:
        """The value for rows in the top k, times the chance that the rows above leave.

        Where that is below e^-300 it is 0: some databases refuse what is too small for 64 bits,
        and so would be the square of the value.

        Args:
            value: What to give of a row.
            by_rank: The logarithm of what else leaves off, whatever the items above are.
        """
        log = "\n                + ".join(filter(None, (f"coalesce({self.above}, 0e0)", by_rank)))
        return case(
            join_conditions(self._top, f"{log} > -3e2"), f"{value}\n            * exp({log})"
        )

    @property
    def not_faded(self) -> str:
        """The condition of ranks where p^(rank - 1) is no faint number; empty if all are."""
        return "" if self.k and self.k <= self._last else f"rnk <= {self._last}"

    def in_top(self, value: str, *conditions: str) -> str:
        """The value for rows in the top k, 0 for others."""
        top = join_conditions(self._top, *conditions)
        return case(top, value) if top else value

    def of_top(self, value: str, condition: str = "") -> str:
        """The value for rows in the top k, NULL for others."""
        top = join_conditions(self._top, condition)
        return case(top, value, "") if top else value

    @property
    def is_graded(self) -> str:
        """The condition of an item of grade `min_grade` or more, empty if each counts."""
        least = self._settings.parameter("min_grade")
        return f"grade >= {number(least)}" if least else ""

    @property
    def value(self) -> str:
        """The column of the items that the metric is a function of."""
        return identifier(self.measure.metric.operand)

    def weighed(self, value: str) -> str:
        """The value, times the discount of its rank if the metric is discounted."""
        factors = [value] * (value != "1e0")
        if self.measure.metric.is_discounted:
            factors.append(self.discount("rnk"))
        return " * ".join(factors) or "1e0"

    def in_middle(self, value: str) -> str:
        """The value for the one or two rows in the middle of those of the top k, 0 for others."""
        condition = join_conditions(self._top, f"{self.value} is not null", self.is_graded)
        name = f"in_{self.measure.column}"
        self._rows.windows[name] = in_middle(condition, self.value)
        return case(f"{name} = 1", value)

    @property
    def exposure_gap(self) -> str:
        """|share - target| - target of each group that a list shows, at its first item.

        A group that is not shown is as far off as its target, and all targets are 1 together.
        """
        group, equal = self.value, self._settings.parameter("equal")
        is_grouped = f"{group} is not null"
        weight = self.in_top(self.discount("rnk"), is_grouped, self.is_graded)
        name, rank_name = f"share_in_{self.measure.column}", f"place_in_{group}"
        self._rows.windows |= {
            name: share_of_group(weight, group),
            rank_name: place_in_group(group),
        }
        shares = {f"catalogue_share_of_{group}": 1 - equal, f"equal_share_of_{group}": equal}
        targets = [
            share if factor == 1 else f"{double(factor)} * {share}"
            for share, factor in shares.items()
            if factor
        ]
        target = " + ".join(targets) if len(targets) == 1 else f"({' + '.join(targets)})"
        return case(f"{rank_name} = 1", f"abs({name} - {target}) - {target}", "")

    @property
    def worth(self) -> str:
        """What the label is worth by the column that the metric is a function of; NULL is 0."""
        return f"coalesce({identifier(label_column(self.measure.metric.operand))}, 0e0)"

    @property
    def last_rank(self) -> str:
        """The last rank where p^(rank - 1) is no faint number."""
        return f"{self._last}e0"

    def where(self, condition: str, other_condition: str, value: str) -> str:
        """The value of the rows that meet both conditions, 0 for others."""
        return case(join_conditions(condition, other_condition), value)

    def up_to(self, rank: str, value: str) -> str:
        """The value for rows down to a rank, 0 for others."""
        return case(f"rnk <= {rank}", value)

    def in_hits(self, value: str, condition: str = "", weight: str = "1e0") -> str:
        """The value for relevant rows in the top k, times what each is worth, 0 for others."""
        factors = [factor for factor in (value, weight) if factor != "1e0"]
        if not self._all_orders:
            product = " * ".join(factors) or "1e0"
            return case(join_conditions(self._top, condition, self.relevant), product)
        operand = self.measure.metric.operands[:1]
        name = "_".join(["relevant", *(operand or ["grade"] * (weight != "1e0"))])
        mean = self._rows.mean(f"{name.casefold()}{self.suffix}", case(self.relevant, weight))
        product = mean if value == "1e0" else f"{mean} * {value}"
        top = join_conditions(self._top, condition)
        return case(top, product) if top else product

    def first_hit(self, value: str, pick: str = "max") -> str:
        """The value of the first relevant row of the top k, NULL without one.

        Args:
            value: What to give of that row.
            pick: `max` if the value falls with the rank, `min` if it grows.
        """
        if not self._all_orders:
            return f"{pick}({case(join_conditions(self._top, self.relevant), value, '')})"
        chance = self._rows.chance_first(self.suffix, self.relevant)
        top = join_conditions(self._top, f"{chance} > 0e0")
        return f"sum({case(top, f'{chance} * {value}', '')})"

    def in_relevant(self, value: str) -> str:
        """The value for relevant rows, 0 for others."""
        return case(self.relevant, value)

    def _mean(self, name: str, value: str) -> str:
        """A value of a row: with ties in all orders the mean of its tie group."""
        return self._rows.mean(name, value) if self._all_orders else value

    def in_best(self, value: str) -> str:
        """The value for relevant rows in the top k that are better than all above them."""
        self._rows.best_above = True
        best = join_conditions(self._top, self.relevant, "grade > coalesce(best_above, 0e0)")
        return case(best, value, "")

    @property
    def novelty(self) -> str:
        """What an item is worth to a group that came above it already, so many times."""
        return novelty(self._settings.parameter("alpha"), "seen_above", self.k)

    def decayed(self, parameter: str) -> str:
        """A parameter to the power of the ranks above, 0 where that is below e^-150."""
        base = self._settings.parameter(parameter)
        power = f"power({double(base)}, rnk - 1)"
        last = last_power(base)
        return power if self.k and self.k <= last else case(f"rnk <= {last}", power)

    @property
    def _top(self) -> str:
        if self.k and self.widened:
            self._rows.tied_rnk = True
            return f"tied_rnk <= {self.k}"
        return f"rnk <= {self.k}" if self.k else ""


class _Fields(dict[str, str]):
    """The fields of a choice's text, made when they are met."""

    def __init__(self, view: MetricContext, **fields: str) -> None:
        super().__init__(fields)
        self._view = view

    def __missing__(self, name: str) -> str:
        return str(getattr(self._view, name))


def part_of(measure: Measure, name: str) -> Measure:
    """The part of a metric that its header calls by a name."""
    return part_named(measure, measure.metric.parts[name])


def part_named(measure: Measure, text: str) -> Measure:
    """A metric with what it shares with another, `@list` behind its name: over the whole list."""
    metric, marker, _ = text.partition(WHOLE_LIST)
    part = measure.part(measure.metric.part(metric))
    return part.uncut() if marker else part


def used_parts(spec: Spec, measure: Measure) -> list[Measure]:
    """The metrics that one is made of, under the choices that hold."""
    parts: dict[Measure, None] = {}

    def noted(part: Measure) -> str:
        parts[part] = None
        return "0"

    if measure.metric.pooled:
        return [part_of(measure, "rows")]
    if measure.metric.arithmetic:
        return [spec.settings(component).measure for component in measure.components]
    view = RowContext(spec, measure, noted, RowColumns())
    for macro in ("numerator", "denominator") if measure.metric.ratio else ("value",):
        measure.metric.sql(macro, view)
    return list(parts)


def sums_of(spec: Spec, measure: Measure) -> Iterator[Measure]:
    """The sums that a metric is made of, under the choices that hold."""
    if measure.metric.over not in ("query", "metrics") and not measure.metric.pooled:
        yield measure
        return
    for part in used_parts(spec, measure):
        yield from sums_of(spec, part)


def graded_part(spec: Spec, measure: Measure, count: str) -> Measure | None:
    """A count over the items of a list whose grades a metric looks at; None if it looks at none.

    Whoever sorts the items by their grades looks at the whole list, and so does who puts those of
    a set of evidence at one rank.
    """
    sums = [sum_measure for sum_measure in sums_of(spec, measure) if _is_graded(spec, sum_measure)]
    if not sums:
        return None
    part = part_named(measure, count)
    is_uncut = any(
        sum_measure.k is None or sum_measure.metric.over in ("ideal_shown", "evidence")
        for sum_measure in sums
    )
    return part.uncut() if is_uncut else part


def _is_graded(spec: Spec, measure: Measure) -> bool:
    """Whether a sum over the items of a list looks at their grades."""
    metric = measure.metric
    if metric.over == "item_features":
        rows = RowColumns()
        text = metric.sql("value", RowContext(spec, measure, lambda _: "0", rows))
        texts = [text, *(text for window in rows.windows.values() for text in window.reads)]
        return any(re.search(r"\bgrade\b", text) for text in texts)
    return metric.over in GRADED and metric.name not in OF_LABELLING


def _added(terms: Sequence[str]) -> str:
    wrap = "\n    " if len("".join(terms)) > 60 else " "
    return f"{wrap}+ ".join(terms)


def join_conditions(*conditions: str) -> str:
    """All the conditions that there are."""
    return " and ".join(filter(None, conditions))

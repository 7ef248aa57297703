"""What the parts of an export are called in a dbt project, and how SQL stands among Jinja."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.exports.inputs import Input, put
from sqlmetrics.jobs.exports.job_query import END, NOW, RUN_ID, START, STEP, JobQuery
from sqlmetrics.jobs.exports.questions import FACTS, OLDEST, PER_QUERY
from sqlmetrics.sql.template import parts

MADE = "made by: sqlmetrics export dbt"
"""What every file says in its first line."""

_DAY = "%Y-%m-%d"


@dataclass(frozen=True)
class Project:
    """The names in a project.

    Attributes:
        job: What is exported.
        refs: Tables that are models of the project, by their names.
        end: What the model of the fact table has behind the table's name, where the table itself
            is made by somebody else.
    """

    job: JobQuery
    refs: tuple[str, ...] = ()
    end: str = ""

    def __post_init__(self) -> None:
        table_names = {job_input.name[-1] for job_input in self.job.inputs if job_input.name}
        if unknown := [ref for ref in self.refs if ref not in table_names]:
            choices = ", ".join(sorted(table_names)) or "none"
            raise SpecError(f"--refs: the spec reads no table {unknown[0]}; there are {choices}")

    @cached_property
    def model(self) -> str:
        """The model of the fact table."""
        return self.model_of("facts") + self.end

    def model_of(self, table: str) -> str:
        """The model of a table that is written.

        Raises:
            SpecError: If its name is none for a model.
        """
        name = parts(self.job.tables[table])[-1]
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise SpecError(
                f"output: a dbt model is called by a word like ranking_metrics, given {name!r}"
            )
        return name

    @cached_property
    def source(self) -> str:
        """The source of the tables that are read."""
        return word(self.job.spec.title)

    def made_model(self, job_input: Input) -> str:
        """The model of an input that is no table: of a query or a file."""
        return f"{self.model}_{job_input.role}"

    def is_ref(self, job_input: Input) -> bool:
        """Whether an input is a model of the project."""
        return not job_input.name or job_input.name[-1] in self.refs

    def source_of(self, job_input: Input) -> str:
        """The source that an input is a table of: one per schema."""
        schemas = list(dict.fromkeys(i.name[:-1] for i in self.job.inputs if not self.is_ref(i)))
        if job_input.name[:-1] == schemas[0]:
            return self.source
        return f"{self.source}_{word('_'.join(job_input.name[:-1]))}"

    def relation(self, job_input: Input) -> str:
        """What stands behind FROM, as Jinja."""
        if not job_input.name:
            return f"{{{{ ref('{self.made_model(job_input)}') }}}}"
        if self.is_ref(job_input):
            return f"{{{{ ref('{word(job_input.name[-1])}') }}}}"
        return f"{{{{ source('{self.source_of(job_input)}', '{word(job_input.name[-1])}') }}}}"

    def step_model(self, name: str) -> str:
        """The model of a step of a click log, where steps are models."""
        return f"{self.model}__{name.removeprefix(STEP)}"

    @cached_property
    def _pieces(self) -> Mapping[str, str]:
        """Mark -> what stands there in a project."""
        run_started = f"run_started_at.strftime('{_DAY} %H:%M:%S')"
        tables = {FACTS: "facts", PER_QUERY: "per_query"}
        return {
            START: "'{{ start }}'",
            END: "'{{ end }}'",
            RUN_ID: "'{{ invocation_id }}'",
            NOW: f"'{{{{ {run_started} }}}}'",
            **{job_input.mark: self.relation(job_input) for job_input in self.job.inputs},
            **{
                mark: f"{{{{ ref('{self.model_of(table)}') }}}}"
                for mark, table in tables.items()
                if table in self.job.tables
            },
        }

    def sql(self, text: str, **extra_pieces: str) -> str:
        """SQL over marks as a template: Jinja in their place, all else as it is.

        Args:
            text: The SQL.
            extra_pieces: Mark -> what stands there besides.
        """
        ages = {
            f"{OLDEST}_{days}": "'{{ (run_started_at - modules.datetime.timedelta(days="
            f"{days})).strftime('{_DAY}') }}}}'"
            for days in re.findall(rf"{OLDEST}_(\d+)", text)
        }
        return put(text, {**self._pieces, **ages, **extra_pieces}, escaped)


def escaped(text: str) -> str:
    """A text in which Jinja finds nothing.

    >>> escaped("'{{ x }}'")
    "'{{ '{{' }} x }}'"
    """
    return re.sub(r"\{[{%#]", lambda match: f"{{{{ '{match[0]}' }}}}", text)


def word(text: str) -> str:
    """A text as a name in a project: small letters, digits and underscores.

    >>> word("Search (EU)"), word("7 days")
    ('search_eu', '_7_days')
    """
    plain = re.sub(r"\W+", "_", text.casefold(), flags=re.ASCII).strip("_") or "spec"
    return f"_{plain}" if plain[0].isdigit() else plain


def commented(*sentences: str) -> str:
    """Sentences as comment lines of SQL, in which Jinja finds nothing either."""
    lines = [line for sentence in sentences for line in sentence.rstrip().splitlines()]
    comment_lines = (line if line.startswith("--") else f"-- {line}" for line in lines)
    return "".join(f"{escaped(line)}\n" for line in comment_lines)

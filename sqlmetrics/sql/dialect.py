"""The SQL dialects: what each needs beside its grammar to mean what the text means on DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlmetrics.sql.template import parts


@dataclass(frozen=True)
class Times:
    """How times are read and told, in UTC where a time has a zone.

    Attributes:
        day: The day of a time.
        day_in_zone: The day of a time with a zone, in {zone}; empty where there is no such type.
        zones: Whether any zone has a name there that all know; else UTC alone.
        instant: A time with a zone, of a text in UTC; empty where none is written, so that rows
            are compared by their day.
        compares_days: Whether a column of dates, or of times without a zone, is compared with a
            day as it is: with its midnight. Else each value is cast to its day.
        compares_texts: Whether a text stands for its day beside a column of dates.
        micros: A time as microseconds since 1970, which a DOUBLE holds exactly.
        moment: A time, of a text of it.
        now: The time at which a job runs, by its text.
        later: The day that is {days} days after a {day}.
        age: How many days ago a day was.
    """

    day: str = "cast({column} as date)"
    day_in_zone: str = "cast({column} at time zone '{zone}' as date)"
    zones: bool = True
    instant: str = ""
    compares_days: bool = False
    compares_texts: bool = True
    micros: str = "extract(epoch from cast({column} as timestamp)) * 1000000"
    moment: str = "cast({column} as timestamp)"
    now: str = "cast(current_timestamp as timestamp)"
    later: str = "{day} + {days}"
    age: str = "cast(date_diff('day', {column}, current_date) as bigint)"

    def in_zone(self, zone: str) -> str:
        """The day of a time in a zone, of a {column}."""
        return self.day_in_zone.replace("{zone}", zone)

    def knows(self, zone: str) -> bool:
        """Whether days of a zone can be told."""
        return bool(self.day_in_zone) and (self.zones or zone == "UTC")


@dataclass(frozen=True)
class Client:
    """A program that executes files of SQL.

    Attributes:
        name: What it is called.
        parameter: How its text names a parameter.
        command: How it is called with the files, for one day.
        keep: How one script keeps a table for a while, where a connection cannot.
    """

    name: str
    parameter: str
    command: str
    keep: str = ""


TRANSACTION, EXCHANGE, OVERWRITE = "transaction", "exchange", "overwrite"
MERGE = "merge"
"""How rows take the place of others: all tables at once; day by day, by a table beside the old one
whose parts change places, or by writing over the parts; or table by table in one statement."""

LAKES = ("delta", "iceberg")
"""Formats of Spark's tables each change of which is a commit, whole or not at all."""


@dataclass(frozen=True)
class Writing:
    """How the tables of a job are written.

    Attributes:
        by_run: Whether `run` can do it; else a job is compiled.
        publishes: Whether `--publish` can write there; Spark cannot delete from files.
        replace: How new rows take the place of old ones.
        begin: How a transaction begins; empty where there is none. Where parts are written
            over: what a session is told so that the other parts stay.
        commit: How it ends.
        lock: What keeps two runs apart that write the same tables, of a {key}.
        key: What that lock is called, as SQL, of the {name} of a table with its schema.
        schema: The schema in which a {table} is found that is named without one, likewise.
        add_column: How a table gains a column, of its {table}, {unless} and {column}.
        grows_views: Whether a block reads a view's columns, so that a compiled job adds to them.
        client: The program that executes a compiled job; None where none is known.
        promise: What a reader must know of a compiled job where not all changes at once.
    """

    by_run: bool = False
    publishes: bool = False
    replace: str = TRANSACTION
    begin: str = "begin"
    commit: str = "commit"
    lock: str = ""
    key: str = ""
    schema: str = ""
    add_column: str = "alter table {table} add column {unless}{column}"
    grows_views: bool = False
    client: Client | None = None
    promise: str = "all in one transaction: an error leaves the tables as they were"

    def lock_key(self, name: str, quoted: str, text: Callable[[str], str]) -> str:
        """What the lock of a table is called, as SQL: the same however the table is spelled.

        Args:
            name: The table's dotted name.
            quoted: The same as the dialect quotes it.
            text: Makes a text of the dialect.
        """
        dotted = ".".join(parts(name.lower())[-2:])
        if len(parts(name)) > 1:
            return self.key.format(name=text(dotted))
        schema = self.schema.format(table=text(quoted))
        return self.key.format(name=f"concat({schema}, {text(f'.{dotted}')})")


@dataclass(frozen=True)
class Key:
    """How a table that stays is kept to one row per key, and found by it.

    Attributes:
        statement: What makes an index unless it is there, of its {index}, {table}, {columns};
            empty where there is none.
        inline: The line of `create table` that does the same or only says it, of {columns}.
        text: How a short text stands in it, by its {column}.
        long: How a text of any length does.
    """

    statement: str = ""
    inline: str = ""
    text: str = "{column}"
    long: str = "{column}"


@dataclass(frozen=True)
class Comments:
    """How a database keeps what is said of tables, views and columns; each of a {text}.

    Attributes:
        statement: What says it of a table that is there, of the {kind} (table or view) and {name};
            empty where it can be said only as it is made.
        column: The same of a {column} of the table or view {name}.
        inline: What stands behind a column as it is made.
        behind: What stands behind the table as it is made.
    """

    statement: str = ""
    column: str = ""
    inline: str = ""
    behind: str = ""


@dataclass(frozen=True)
class Catalogue:
    """How a database lists what it holds: queries, each empty where it was not tried.

    Attributes:
        relations: Schema, name, and `view` or `table` of all that there is.
        views: Schema, name and text of each view.
        schema: The current schema; empty where there are none.
        path: The schemas in which a name alone is looked for, the first one first; by default the
            current one.
        function: A row if there is a function of the {name}, a text.
        drop_function: The statement that removes the one of two days, by its {name}.
        macros: Name and parameters of each macro of tables that has the {parameter}, a text.
        drop_macro: The statement that removes one, by its {name}.
    """

    relations: str = ""
    views: str = ""
    schema: str = ""
    path: str = ""
    function: str = ""
    drop_function: str = ""
    macros: str = ""
    drop_macro: str = ""


@dataclass(frozen=True)
class Dialect:
    """A dialect. Its grammar is sqlglot's; here stands what a grammar does not know.

    Attributes:
        name: What users write.
        title: Its own name.
        grammar: The dialect's name in sqlglot.
        relative: The dialect of an engine that was executed and takes nearly the same text.
        text: The type of a text of any length.
        collation: The collation by which texts are compared as bytes; empty where they
            are unless a column says otherwise.
        has_nan: Whether a DOUBLE can be NaN.
        has_float32: Whether a cast to a 32-bit number gives one.
        fails_at_underflow: Whether it has no 0 for what is too small for 32 bits, but an error.
        folds: What it takes an unquoted name for: `upper` or `lower`; or `exact` where all
            names can be quoted.
        signed_zero: Whether -0.0 and 0.0 are two values to it, at least in some places.
        partitions_floats: Whether a window can be partitioned by a number that is no whole one.
        names_columns: Whether a column of a join keeps its own name only if that is said.
        distributes: Whether rows are brought together by query once, for the join with the
            labels and for the window; else each of the two would move all rows.
        casts_texts: Whether any text can be cast to a number, and columns need no type.
        exact_literals: Whether 1e0 is a decimal number to it, with which it computes many times
            slower than with a DOUBLE.
        few_stages: Whether a query has 64 stages at most.
        places: How many stages, each of the one before alone, its planner takes in a row.
        inlines_stages: Whether it computes a stage anew each time that it is read.
        inlines_joined: Whether a join reads a stage anew for each row, unless it has a limit.
        copies_stages: Whether it writes down a stage that two others read, unless told not to.
        row_hash: 64 bits of some {columns}, where rows that stand twice are found by as many
            hashes as rows in less time than by groups.
        settings: What stands behind a query so that it means the same.
        keep: How a statement that keeps a query's rows for a while begins; empty where
            there is none, and the query runs again for each table.
        drop: What they are dropped with.
        temporary_view: Whether a query's text can be kept for a while as well.
        parameters_in_views: Whether such a view may have a client's parameters in it.
        hides_kept: Whether a query that has CTEs does not find what was kept, but computes it
            again; subqueries do find it.
        types: DuckDB's word for a type -> that of a column in a table that stays, where it is
            not what the grammar says.
        storage: What stands behind the columns of a table that stays.
        by_day: The same for one that is replaced day by day: how it is cut into parts. Without
            it all days are replaced in one transaction.
        adds_columns: Whether a column can be added unless it is there.
        view: The statements that make a view, or make it anew so that what was granted on it
            stays, of its {name} and its {select}, and of a {text} that says what it is.
        undoes_views: Whether a transaction that fails takes its views back too.
        function: The statement that makes a function of two days, of its {name}, its {select} and
            the {columns} that it gives; empty where there is none, or where it was not tried.
        argument: How the text of one names its argument {name}.
        session: What a session is told before a script, so that it means the same.
        scans: The same before a click log, whose stages read most of their rows, for its plans.
        run_id: A text that names a run of a job, by its text.
        exact_sum: The statement that gives a session the function {name}, which adds floats to the
            same bits in any order; empty where none is made.
        adds_in_parts: Whether what runs on it adds floats in two parts: multiples of 2^-24, whose
            sum is exact, and what is left of each.
        hashed: The MD5 of a text, in lower case.
        quick_hash: 64 bits of a text, NULL or not, that cost little; empty where no evaluation is
            cut into buckets of queries.
        unfolded: One row for each value of a list {column} and for {element} more; empty where
            lists are no type.
        explodes: Whether lists become rows by `lateral view posexplode`.
        is_listed: Whether {names}, a text like `mrr, ndcg@10`, has a {name}.
        times: How times are read and told.
        writing: How the tables of a job are written.
        key: How a table is kept to one row per key.
        comments: How a database keeps what is said of its tables.
        catalogue: How it lists what it holds.
    """

    name: str
    title: str
    grammar: str
    relative: str = ""
    text: str = "VARCHAR"
    collation: str = ""
    has_nan: bool = True
    has_float32: bool = True
    fails_at_underflow: bool = False
    folds: str = "exact"
    signed_zero: bool = False
    partitions_floats: bool = True
    names_columns: bool = False
    distributes: bool = False
    casts_texts: bool = False
    exact_literals: bool = False
    few_stages: bool = False
    places: int = 20
    inlines_stages: bool = False
    inlines_joined: bool = False
    copies_stages: bool = False
    row_hash: str = ""
    settings: str = ""
    keep: str = "create temporary table"
    drop: str = "drop table"
    temporary_view: bool = False
    parameters_in_views: bool = True
    hides_kept: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    storage: str = ""
    by_day: str = ""
    adds_columns: bool = True
    view: tuple[str, ...] = ("create or replace view {name} as\n{select}",)
    undoes_views: bool = False
    function: str = ""
    argument: str = "{name}"
    session: tuple[str, ...] = ()
    scans: tuple[str, ...] = ()
    run_id: str = "cast(current_timestamp as varchar)"
    exact_sum: str = ""
    adds_in_parts: bool = False
    hashed: str = "md5({column})"
    quick_hash: str = ""
    unfolded: str = ""
    explodes: bool = False
    is_listed: str = "', ' || {names} || ', ' like '%, ' || {name} || ', %'"
    times: Times = Times()
    writing: Writing = Writing()
    key: Key = Key()
    comments: Comments = Comments()
    catalogue: Catalogue = Catalogue()

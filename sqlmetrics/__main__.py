"""The process of the command line: `sqlmetrics`, or `python -m sqlmetrics`."""

from __future__ import annotations

import atexit
import os
import sys

from sqlmetrics.cli import main


def process() -> None:
    """Run the command line, and leave at once if all went well.

    Python takes apart what was imported, object by object, which lasts as long as the import of
    DuckDB; the system frees the memory of a process anyway.
    """
    # a plugin that watches models is asked for in every package that is installed
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    atexit.register(_leave)  # before all others, since the first to come is the last to be called
    try:
        main()
    except BaseException:
        atexit.unregister(_leave)
        raise


def _leave() -> None:
    """End the process, after all others who had to do something at its end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    process()

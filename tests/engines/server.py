"""What tests that start a server share."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

REQUIRED = os.environ.get("REQUIRE_ENGINES") == "1"
"""Whether an engine that is not here fails its tests, instead of skipping them."""


class MissingError(Exception):
    """Raised if an engine is not here; the text tells how to get it."""


def wait(is_ready: Callable[[], bool], server: subprocess.Popen[bytes], seconds: int = 30) -> None:
    """Wait until a server is ready.

    Raises:
        MissingError: If it ends, or is not ready after so many seconds.
    """
    for _ in range(10 * seconds):
        if is_ready():
            return
        if server.poll() is not None:
            raise MissingError(f"the server ended with {server.returncode}")
        time.sleep(0.1)
    raise MissingError(f"the server did not start within {seconds} s")

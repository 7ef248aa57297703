"""The command line in this process, with the streams and the exit code of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from sqlmetrics.cli import main


def sqlmetrics(*arguments: str, folder: Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, and see that its exit code is the expected one.

    It runs in this process, since starting Python takes longer than most commands.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    line = ["sqlmetrics", *arguments]
    code: object = 0
    with patch.object(sys, "argv", line), chdir(folder), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    assert code == expect, texts[1]
    assert "Traceback" not in texts[1]
    return subprocess.CompletedProcess(line, expect, *texts)

"""What a process, its children and a server cost, while they live: from Linux' `/proc`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PAUSE = 0.05
"""So many seconds between two looks at the memory."""


@dataclass
class Spent:
    """CPU seconds, and the most memory in MB; known when the block ends."""

    cpu: float = 0.0
    peak: float = 0.0


def parent_of(process: int) -> int:
    """The process that started another one."""
    return int(_stat(process)[1])


@contextmanager
def spending(servers: Sequence[int] = ()) -> Iterator[Spent]:
    """What this process, these servers, and all that they start take in the block.

    The peak of this process is exact. That of the others is looked at every now and then; memory
    that they share is counted once.
    """
    spent, ends = Spent(), threading.Event()
    roots = (os.getpid(), *servers)
    peaks = [0.0]
    watch = threading.Thread(target=_watch, args=(roots, ends, peaks), daemon=True)
    before = _cpu(roots)
    _forget_peak()
    watch.start()
    try:
        yield spent
    finally:
        spent.cpu = _cpu(roots) - before
        ends.set()
        watch.join()
        spent.peak = max(peaks) + _peak()


def _watch(roots: Sequence[int], ends: threading.Event, peaks: list[float]) -> None:
    while not ends.wait(PAUSE):
        sizes = [_memory(process) for process in _tree(roots) if process != os.getpid()]
        unshared, shared = (
            (list(column) for column in zip(*sizes, strict=True)) if sizes else ([0.0], [0.0])
        )
        peaks.append(sum(unshared) + max(shared))


def _tree(roots: Sequence[int]) -> set[int]:
    """The processes that live now, and came from these."""
    processes, pending = set[int](), list(roots)
    while pending:
        process = pending.pop()
        if process not in processes:
            processes.add(process)
            for task in _listed(PROC / str(process) / "task"):
                with suppress(OSError):
                    pending += map(int, (task / "children").read_text().split())
    return processes


def _listed(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []


def _stat(process: int) -> list[str]:
    """The fields of `/proc/n/stat` behind the name: the state is the first."""
    return (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()


def _cpu(roots: Sequence[int]) -> float:
    """Seconds of all that live, and of those that ended and were waited for."""
    ticks = 0
    for process in _tree(roots):
        with suppress(OSError):
            ticks += sum(map(int, _stat(process)[11:15]))
    return ticks / TICKS


def _memory(process: int) -> tuple[float, float]:
    """MB of its own, and MB that it may share with others."""
    with suppress(OSError):
        _, resident, shared, *_ = map(int, (PROC / str(process) / "statm").read_text().split())
        return (resident - shared) * PAGE / 1e6, shared * PAGE / 1e6
    return 0.0, 0.0


def _forget_peak() -> None:
    with suppress(OSError):
        (PROC / "self" / "clear_refs").write_text("5")


def _peak() -> float:
    status = (PROC / "self" / "status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

"""Keeps the protocol away from what plugins do with the standard streams.

The runtime hands over its two pipes as the streams 0 and 1. Before any plugin code is imported
they move to high numbers that are closed in child processes; 0 becomes an empty stream and 1 goes
where 2 goes. A plugin that prints, in Python or in C, writes to the log.
"""

from __future__ import annotations

import os
import signal
import sys

_HIGH = 700
"""Above what plugins that close "all" low descriptors usually name, below common limits."""


def _move(descriptor: int) -> int:
    try:
        import fcntl

        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except (ImportError, OSError):
        moved = os.dup(descriptor)
        os.set_inheritable(moved, False)
    return moved


def take_over() -> tuple[int, int]:
    """Moves the protocol's pipes away and returns their new numbers, reading one first."""
    # The thread that reads is the main one: nothing interrupts it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader, writer = _move(0), _move(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    # The text layers were made for the old streams; line buffering keeps the log readable.
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    setattr(sys, "__stdout__", sys.stdout)  # noqa: B010  (what plugins restore)
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", errors="replace", closefd=False)
    setattr(sys, "__stdin__", sys.stdin)  # noqa: B010
    if hasattr(os, "register_at_fork"):

        def forget() -> None:
            # A forked child must not be able to speak for the host, nor keep its pipes open.
            for descriptor in (reader, writer):
                try:
                    os.close(descriptor)
                except OSError:
                    pass

        os.register_at_fork(after_in_child=forget)
    return reader, writer

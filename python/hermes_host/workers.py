"""Threads without a bound: one for every call that is being served, idle ones used again.

A bound would let a callback that waits for another callback starve it. A thread that hangs is
never joined; the runtime counts those that it gave up on and replaces the process at a limit.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

_IDLE_SECONDS = 30.0

Job = Callable[[], None]


class Workers:
    """A pool that always has a free thread."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, job: Job) -> None:
        """Runs a job on a thread of its own, in a context of its own."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                self._jobs.put(job)
                return
        threading.Thread(target=self._run, args=(job,), name="hermes-call", daemon=True).start()

    def _run(self, job: Job) -> None:
        while True:
            contextvars.Context().run(job)
            with self._lock:
                self._idle += 1
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        return
                # A job was promised to this thread in the meantime.
                job = self._jobs.get()

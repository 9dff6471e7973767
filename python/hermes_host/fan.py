"""One event for several callbacks: the payload travels once, results go back one by one.

The runtime owns the deadlines. When it gives up on a callback it says so; the thread that hangs in
it is left alone, a new one goes on with the next, and a late result is dropped.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from . import faults, origin, runtime
from .hydrate import hydrate, mutations
from .loop import finish
from .wire import Closed

if TYPE_CHECKING:
    from .server import Server


# Bound here, before any plugin can put something else in its place.
_clock = time.perf_counter


class Fan:
    """An event on its way through its callbacks."""

    def __init__(self, server: Server, number: int, params: dict[str, Any]) -> None:
        self.number = number
        self._server = server
        self._hook = params.get("hook", "")
        self._refs: list[int] = params["refs"]
        self._ids: list[int] = params.get("ids") or []
        self._raw = server.mirror.resolve(params.get("payload") or {})
        self._payload: dict[str, Any] = {}
        self._broken: Exception | None = None
        self._call = params.get("call") or {}
        self._position = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Runs the callbacks from the first one on."""
        try:
            self._payload = hydrate(self._hook, self._raw)
        except Exception as error:
            self._broken = error
        self._run(0)

    def skip(self, index: int) -> None:
        """Leaves a callback that takes too long, and goes on with the next."""
        with self._lock:
            if self._position != index:
                return
            self._position = index + 1
        self._run(index + 1)

    def _run(self, index: int) -> None:
        while index < len(self._refs):
            result = self._one(index)
            with self._lock:
                late = self._position != index
                if not late:
                    self._position = index + 1
            if late:
                if index < len(self._ids):
                    runtime.tell("late", {"entry": self._ids[index]})
                return
            if not self._told(index, result):
                return
            index += 1
        self._server.fans.pop(self.number, None)

    def _told(self, index: int, result: dict[str, Any]) -> bool:
        """Sends a result; as an error if it cannot be sent as it is."""
        place = {"call": self.number, "index": index}
        try:
            self._server.peer.notify("result", {**result, **place})
        except Closed:
            return False
        except Exception as error:
            return self._told(index, {"error": faults.describe(error)})
        return True

    def _one(self, index: int) -> dict[str, Any]:
        began = _clock()
        result: dict[str, Any] = {}
        token = None
        try:
            if self._broken is not None:
                raise self._broken
            entry = self._server.callables.get(self._refs[index])
            call = origin.Call(self._call, entry.plugin)
            token = origin.enter(call)
            kwargs = entry.shape().pick(self._payload)
            for name, value in kwargs.items():
                if type(value) is list:
                    kwargs[name] = value.copy()
            with runtime.bound(call):
                value = finish(entry.call(**kwargs))
            if value is not None:
                result["value"] = value
            changed = mutations(self._payload)
            if changed:
                result["mutations"] = changed
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a plugin included
            result["error"] = faults.describe(error)
        finally:
            if token is not None:
                origin.leave(token)
        result["ms"] = (_clock() - began) * 1000.0
        return result

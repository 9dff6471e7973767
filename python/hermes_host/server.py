"""Serves the runtime's requests, each on a thread of its own.

Mirrored values are applied by the reading thread, in the order in which they arrive; everything
else may run at the same time as anything else.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from . import COMPATIBLE, PROTOCOL, imports, loop, origin, runtime
from .callables import Callables
from .fan import Fan
from .hydrate import attributes, hydrate, mutations
from .loop import finish
from .mirror import Mirror
from .wire import Closed, Peer
from .workers import Workers

_END_SECONDS = 2.0
"""How long the end may take; the runtime ends the process by force after three seconds."""

# Bound here, before any plugin can put something else in their place.
_exit = os._exit
_clock = time.perf_counter


def _as_it_is(value: Any) -> Any:
    return value


class Server:
    """The host."""

    def __init__(self, reader: int, writer: int) -> None:
        self.peer = Peer(reader, writer)
        self.workers = Workers()
        self.callables = Callables()
        self.mirror = Mirror()
        self.fans: dict[int, Fan] = {}
        self._methods: dict[str, Callable[[dict[str, Any]], Any]] = {
            "initialize": self._initialize,
            "load": self._load,
            "unload": self._unload,
            "invoke": self._invoke,
            "object": self._object,
            "cli": self._cli,
            "doctor": self._doctor,
            "ping": lambda params: params,
        }
        runtime.start(self)

    def serve(self) -> int:
        """Reads until the runtime closes its end or asks for the end."""
        code = 1
        try:
            self._read()
            code = 0
        except BaseException:  # whatever a plugin did to this thread or to its pipe
            with contextlib.suppress(Exception):
                traceback.print_exc()
        finally:
            self._end(code)
        return code

    def _read(self) -> None:
        while True:
            message = self.peer.receive()
            if message is None:
                return
            method = message.get("method")
            if method is None:
                self.peer.settle(message)
                continue
            params = message.get("params") or {}
            changes = params.pop("mirror", None)
            if changes:
                self.mirror.update(changes)
            if params.get("kwargs"):
                self.mirror.resolve(params["kwargs"])
            if method == "fanout":
                fan = Fan(self, message["id"], params)
                self.fans[fan.number] = fan
                self.workers.submit(fan.start)
            elif method == "skip":
                skipped = self.fans.get(params["call"])
                if skipped is not None:
                    self.workers.submit(lambda f=skipped, i=params["index"]: f.skip(i))  # type: ignore[misc]
            elif method == "cancel":
                loop.cancel(params["call"])
            elif method == "shutdown":
                return
            elif "id" in message:
                self.workers.submit(lambda m=message, p=params: self._serve(m, p))  # type: ignore[misc]
            else:
                self.workers.submit(lambda m=method, p=params: runtime.notified(m, p))  # type: ignore[misc]

    def _end(self, code: int) -> None:
        self.peer.abandon()
        # What plugins asked for at the end (`atexit`) runs, and holds nobody up for long; their
        # threads, daemon or not, must not keep the process.
        last = threading.Thread(target=self._last, name="hermes-end", daemon=True)
        with contextlib.suppress(RuntimeError):
            last.start()
            last.join(_END_SECONDS)
        _exit(code)

    @staticmethod
    def _last() -> None:
        runtime.stop()
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    def _serve(self, message: dict[str, Any], params: dict[str, Any]) -> None:
        number = params["number"] = message["id"]
        handler = self._methods.get(message["method"])
        try:
            if handler is None:
                raise LookupError(f"the host has no method {message['method']!r}")
            result = handler(params)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a plugin included
            self._say(self.peer.fail, number, error)
        else:
            self._say(self.peer.answer, number, result)

    @staticmethod
    def _say(send: Callable[[Any, Any], None], number: Any, what: Any) -> None:
        with contextlib.suppress(Closed):
            send(number, what)

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        runtime.configure(params)
        imports.install()
        return {
            "protocol": PROTOCOL,
            "compatible": COMPATIBLE,
            "python": ".".join(map(str, sys.version_info[:3])),
            "executable": sys.executable,
            "pid": os.getpid(),
        }

    def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        from . import loading

        return loading.load(self, params)

    def _unload(self, params: dict[str, Any]) -> dict[str, Any]:
        from . import loading

        return loading.unload(self, params["key"])

    def _invoke(self, params: dict[str, Any]) -> dict[str, Any]:
        """Calls one callable: a tool, a command, a check, a prompt section, a subscriber."""
        entry = self.callables.get(params["ref"])
        payload = hydrate(params.get("hook") or entry.kind, params.get("kwargs") or {})
        args = params.get("args") or []
        number = params["number"]
        call = origin.Call({**(params.get("call") or {}), "call": number}, entry.plugin)
        token = origin.enter(call)
        began = _clock()
        try:
            kwargs = entry.shape(len(args)).pick(payload) if payload else {}
            if params.get("chain"):
                made = attributes if params.get("hook") == "llm_execution" else _as_it_is
                kwargs["next_call"] = self._next_call(params["chain"], made)
            with runtime.bound(call):
                value = entry.call(*args, **kwargs)
                if params.get("chain") is None:
                    value = finish(value, number)
                elif hasattr(value, "close") and hasattr(value, "send"):
                    # Middleware is called, not awaited: the body of a coroutine never runs.
                    value.close()
                    value = None
        finally:
            origin.leave(token)
            loop.done(number)
        changed = mutations(payload)
        answer: dict[str, Any] = {"value": value, "ms": (_clock() - began) * 1000.0}
        if changed:
            answer["mutations"] = changed
        return answer

    def _next_call(self, chain: int, made: Callable[[Any], Any]) -> Any:
        """What a middleware calls to go on; the runtime lets it do so once."""

        def next_call(*args: Any, **changes: Any) -> Any:
            value = args[0] if args else (changes or None)
            return made(self.peer.call("middleware.next", {"chain": chain, "value": value}))

        return next_call

    def _object(self, params: dict[str, Any]) -> Any:
        from . import objects

        return objects.serve(self, params)

    def _cli(self, params: dict[str, Any]) -> dict[str, Any]:
        from . import cli

        return cli.run(self, params)

    def _doctor(self, params: dict[str, Any]) -> dict[str, Any]:
        from . import loading

        return loading.report(self, params.get("key"))

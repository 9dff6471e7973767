"""Framed JSON-RPC: messages, each behind a `Content-Length` header, both ways over two pipes.

Invariants: a message is written whole or not at all; every request gets exactly one answer; no
lock is held while a request is being answered.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from . import faults, origin


class Closed(Exception):
    """The runtime is gone."""


MOST_SENT = 64 * 1024 * 1024
"""The longest message sent, in bytes; at four times as much the runtime would end the connection."""

# Bound here, before any plugin can put something else in their place.
_write = os.write
_dumps = json.dumps
_loads = json.loads


class TooLarge(ValueError):
    """A message is longer than may be sent."""


def _default(value: Any) -> Any:
    import datetime
    import enum
    import pathlib

    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, pathlib.PurePath):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=_shown)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return {key: value[key] for key in list(value.keys())}
    if hasattr(value, "__dict__") and not callable(value):
        return {k: v for k, v in vars(value).items() if not k.startswith("_")}
    return _shown(value)


def _shown(value: Any) -> str:
    """`repr`, whatever the object does in it."""
    try:
        return repr(value)[:1000]
    except Exception:
        return f"<{type(value).__name__}>"


def _plain(value: Any, depth: int = 0) -> Any:
    """A copy without what JSON cannot hold: NaN, keys that are no text, cycles, what is too deep,
    and objects that raise when they are looked at."""
    if depth > 64:
        return _shown(value)
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        # Python refuses to write out longer ones.
        return value if value.bit_length() < 8192 else f"<int of {value.bit_length()} bits>"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    try:
        return _plain(_default(value), depth + 1)
    except Exception:
        return _shown(value)


def _key(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return _shown(value)


def encode(value: Any) -> bytes:
    """JSON as bytes that every strict reader takes: valid UTF-8, no NaN, keys that are text."""
    try:
        text = _dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default
        )
    except Exception:  # an object of a plugin may raise anything when it is looked at
        text = _dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    body = text.encode("utf-8", "replace")
    if len(body) > MOST_SENT:
        raise TooLarge(f"{len(body)} bytes are more than a message may have ({MOST_SENT})")
    return body


class Peer:
    """One end of the pipes."""

    def __init__(self, reader: int, writer: int) -> None:
        self._in = io.BufferedReader(io.FileIO(reader, "rb", closefd=False), 1 << 16)
        self._out = writer
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._waiting: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self.closed = False

    def _send(self, message: dict[str, Any]) -> None:
        body = encode(message)
        frame = memoryview(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        with self._lock:
            while frame:
                try:
                    written = _write(self._out, frame)
                except OSError as error:
                    self.closed = True
                    raise Closed(str(error)) from error
                frame = frame[written:]

    def receive(self) -> dict[str, Any] | None:
        """The next message, or None when the runtime has gone."""
        length = None
        while True:
            line = self._in.readline(4096)
            if not line:
                return None
            line = line.strip()
            if not line:
                if length is None:
                    continue
                break
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = self._in.read(length)
        if body is None or len(body) < length:
            return None
        message: dict[str, Any] = _loads(body)
        return message

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Says something that needs no answer."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, number: Any, result: Any) -> None:
        """Answers a request; with an error if the result cannot be sent."""
        try:
            self._send({"jsonrpc": "2.0", "id": number, "result": result})
        except Closed:
            raise
        except Exception as error:
            self.fail(number, error)

    def fail(self, number: Any, error: BaseException) -> None:
        """Answers a request with an error."""
        self._send({"jsonrpc": "2.0", "id": number, "error": faults.describe(error)})

    def call(
        self, method: str, params: dict[str, Any] | None = None, timeout: float | None = None
    ) -> Any:
        """Asks the runtime and waits for its answer; raises what the answer says."""
        number = next(self._ids)
        box: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._waiting[number] = box
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
        call = origin.current()
        if call is not None:
            message["origin"] = call.wire()
        try:
            if self.closed:
                raise Closed("the runtime has gone")
            self._send(message)
            answer = box.get(timeout=timeout)
        except Empty:
            raise TimeoutError(f"{method} was not answered within {timeout} s") from None
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise faults.rebuild(answer["error"])
        return answer.get("result")

    def settle(self, message: dict[str, Any]) -> None:
        """Hands an answer to whoever waits for it."""
        box = self._waiting.get(message.get("id", 0))
        if box is not None:
            box.put(message)

    def abandon(self) -> None:
        """Wakes everybody who waits, because nothing more is coming."""
        self.closed = True
        for box in list(self._waiting.values()):
            box.put({"error": {"type": "ConnectionError", "message": "the runtime has gone"}})


Handler = Callable[[dict[str, Any]], Any]

"""The one event loop of the host, on a thread of its own: objects that plugins bind to a loop stay
valid from call to call. Started when the first coroutine needs it.
"""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_running: dict[Any, Any] = {}
_cancelled: set[Any] = set()


def loop() -> asyncio.AbstractEventLoop:
    """The running loop."""
    global _loop
    with _lock:
        if _loop is None:
            import asyncio

            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="hermes-loop", daemon=True).start()
        return _loop


def cancel(number: Any) -> None:
    """The runtime no longer waits for a call: its coroutine is cancelled, a thread can ask."""
    _cancelled.add(number)
    future = _running.get(number)
    if future is not None:
        future.cancel()


def is_cancelled(number: Any) -> bool:
    """Whether the runtime no longer waits for a call."""
    return number in _cancelled


def done(number: Any) -> None:
    """A call has ended."""
    _cancelled.discard(number)


def finish(value: Any, number: Any = None) -> Any:
    """What a callback returned, awaited if it must be."""
    if not inspect.isawaitable(value):
        return value
    import asyncio

    async def waiting() -> Any:
        return await value

    running = loop()
    try:
        if asyncio.get_running_loop() is running:
            raise RuntimeError("a coroutine cannot be waited for on the loop that must run it")
    except RuntimeError as error:
        if "no running event loop" not in str(error):
            raise
    future = asyncio.run_coroutine_threadsafe(waiting(), running)
    if number is None:
        return future.result()
    _running[number] = future
    try:
        return future.result()
    finally:
        _running.pop(number, None)

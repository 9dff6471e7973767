"""Which call a piece of code runs for: carried through threads and coroutines by context
variables, so that what a callback asks for is answered in its own conversation.
"""

from __future__ import annotations

import contextvars
from typing import Any


class Call:
    """The call being served."""

    __slots__ = ("depth", "extra", "hook", "number", "platform", "plugin", "session", "session_key")

    def __init__(self, data: dict[str, Any], plugin: str = "") -> None:
        self.number = data.get("call")
        self.plugin = plugin or data.get("plugin") or ""
        self.hook = data.get("hook") or ""
        self.session = data.get("session_id") or ""
        self.session_key = data.get("session_key") or ""
        self.platform = data.get("platform") or ""
        self.depth = int(data.get("depth") or 0)
        self.extra = data

    def wire(self) -> dict[str, Any]:
        """What the runtime is told."""
        return {
            "call": self.number,
            "plugin": self.plugin,
            "hook": self.hook,
            "session_id": self.session,
            "session_key": self.session_key,
            "platform": self.platform,
            "depth": self.depth,
        }


_current: contextvars.ContextVar[Call | None] = contextvars.ContextVar("hermes_call", default=None)


def current() -> Call | None:
    """The call that the running code serves, if any."""
    return _current.get()


def enter(call: Call) -> contextvars.Token[Call | None]:
    """Begins serving a call in the present context."""
    return _current.set(call)


def leave(token: contextvars.Token[Call | None]) -> None:
    """Ends what `enter` began."""
    _current.reset(token)

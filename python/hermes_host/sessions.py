"""The session variables of the call being served: what the original keeps beside the environment,
so that two conversations at once do not read each other's.
"""

from __future__ import annotations

import contextvars
import os

from .origin import Call

_NAMES = {
    "HERMES_SESSION_ID": "session_id",
    "HERMES_SESSION_KEY": "session_key",
    "HERMES_SESSION_PLATFORM": "platform",
    "HERMES_SESSION_CHAT_ID": "chat_id",
    "HERMES_SESSION_CHAT_NAME": "chat_name",
    "HERMES_SESSION_THREAD_ID": "thread_id",
    "HERMES_SESSION_USER_ID": "user_id",
    "HERMES_SESSION_USER_NAME": "user_name",
    "HERMES_SESSION_MESSAGE_ID": "message_id",
}

_bound: contextvars.ContextVar[dict[str, str] | None] = contextvars.ContextVar(
    "hermes_session", default=None
)


def bind(call: Call) -> contextvars.Token[dict[str, str] | None]:
    """Binds the variables of a call."""
    values = {}
    for variable, field in _NAMES.items():
        value = call.extra.get(field)
        if value:
            values[variable] = str(value)
    return _bound.set(values)


def unbind(token: contextvars.Token[dict[str, str] | None]) -> None:
    """Ends what `bind` began."""
    _bound.reset(token)


def get(name: str, default: str = "") -> str:
    """A session variable of the call being served; outside of any call, the environment's."""
    values = _bound.get()
    if values is not None and name in values:
        return values[name]
    return os.environ.get(name, default)


def put(**values: str) -> contextvars.Token[dict[str, str] | None]:
    """Binds further variables over those that are bound."""
    return _bound.set({**(_bound.get() or {}), **values})

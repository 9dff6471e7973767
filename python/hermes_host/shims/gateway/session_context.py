"""The session variables of the running call."""

from __future__ import annotations

from typing import Any

from hermes_host import sessions


def get_session_env(name: str, default: str = "") -> str:
    """A session variable; where none is bound, the environment's."""
    return sessions.get(name, default)


def set_session_vars(**values: Any) -> Any:
    """Binds session variables in the present context."""
    named = {
        f"HERMES_SESSION_{name.upper()}": str(value) for name, value in values.items() if value
    }
    return sessions.put(**named)


def clear_session_vars(token: Any) -> None:
    """Ends what `set_session_vars` began."""
    sessions.unbind(token)

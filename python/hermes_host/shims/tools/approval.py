"""Approvals, as far as plugins take part in them."""

from __future__ import annotations

from typing import Any

from hermes_host import runtime, sessions


def get_current_session_key(default: str = "default") -> str:
    """The key of the conversation that the running call belongs to."""
    return sessions.get("HERMES_SESSION_KEY") or sessions.get("HERMES_SESSION_ID") or default


def resolve_gateway_approval(session_key: str, choice: str, resolve_all: bool = False) -> int:
    """Answers what waits for approval in a chat; how many were answered."""
    params = {"session_key": session_key, "choice": choice, "all": resolve_all}
    return int(runtime.call("approval.resolve", params) or 0)


def has_blocking_approval(session_key: str) -> bool:
    """Whether something waits for approval in a chat."""
    return bool(runtime.call("approval.waiting", {"session_key": session_key}))


def is_approved(session_key: str, pattern_key: str) -> bool:
    """Whether something was approved for a conversation."""
    params = {"session_key": session_key, "pattern_key": pattern_key}
    return bool(runtime.call("approval.approved", params))


def request_tool_approval(*args: Any, **options: Any) -> Any:
    """Asks a person."""
    return runtime.call("approval.request", {"args": list(args), "options": options})

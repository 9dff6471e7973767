"""Questions to people in chats. No gateway runs in this program yet: nothing waits."""

from __future__ import annotations

from typing import Any


def get_pending_for_session(session_key: str) -> Any:
    """The question that waits in a chat: none."""
    return None


def mark_awaiting_text(clarify_id: str) -> bool:
    """Says that the answer will be text; whether such a question waits."""
    return False


def resolve_gateway_clarify(clarify_id: str, response: Any) -> bool:
    """Answers a question; whether it waited."""
    return False

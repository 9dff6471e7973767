"""Confirmations of slash commands in chats. No gateway runs in this program yet: nothing waits."""

from __future__ import annotations

from typing import Any


def get_pending(session_key: str) -> Any:
    """What waits for a confirmation: nothing."""
    return None


async def resolve(session_key: str, *args: Any, **options: Any) -> Any:
    """Answers it: there is nothing to answer."""
    return None

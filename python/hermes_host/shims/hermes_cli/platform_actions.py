"""Reactions and titles on chat platforms. Never raises: the answer says why not."""

from __future__ import annotations

from typing import Any

from hermes_host import runtime


class PlatformActions:
    """The actions of a plugin."""

    def __init__(self, plugin_id: str) -> None:
        self._plugin = plugin_id

    def _ask(self, action: str, params: dict[str, Any]) -> dict[str, Any]:
        granted = {"plugin": self._plugin, "capability": "gateway.platform_actions"}
        if not runtime.call("capability.check", granted):
            return {"ok": False, "error": "capability_not_granted"}
        try:
            answer = runtime.call(f"platform.{action}", {"plugin": self._plugin, **params})
        except Exception as error:
            return {"ok": False, "error": "gateway_unavailable", "message": str(error)}
        return answer if isinstance(answer, dict) else {"ok": bool(answer)}

    async def add_reaction(self, platform: Any, chat_id: str, message_id: str, emoji: str) -> Any:
        """Adds a reaction."""
        name = str(getattr(platform, "value", platform))
        return self._ask(
            "add_reaction",
            {"platform": name, "chat_id": chat_id, "message_id": message_id, "emoji": emoji},
        )

    async def set_thread_title(
        self, platform: Any, chat_id: str, thread_id: str, title: str
    ) -> Any:
        """Sets a thread's title."""
        name = str(getattr(platform, "value", platform))
        return self._ask(
            "set_thread_title",
            {"platform": name, "chat_id": chat_id, "thread_id": thread_id, "title": title},
        )

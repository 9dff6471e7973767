"""Handing results of unasked runs to chats. No gateway runs in this program yet: nothing is handed
over, and whoever tries is told so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.config import GatewayConfig, Platform


@dataclass(frozen=True)
class DeliveryTarget:
    """A chat that gets something."""

    platform: Platform = Platform.LOCAL
    chat_id: str | None = None
    thread_id: str | None = None
    is_origin: bool = False
    is_explicit: bool = False

    def to_string(self) -> str:
        """As it is written in settings."""
        parts = [self.platform.value, self.chat_id, self.thread_id]
        return ":".join(part for part in parts if part)


class DeliveryRouter:
    """Finds the way to a chat."""

    def __init__(self, config: GatewayConfig | None = None, adapters: Any = None) -> None:
        self.config = config or GatewayConfig()
        self.adapters = adapters or {}

    async def deliver(self, content: str, targets: list[Any], **options: Any) -> dict[str, Any]:
        """Hands nothing over, and says so for each target."""
        from gateway.run import NO_GATEWAY

        return {str(target): {"success": False, "error": NO_GATEWAY} for target in targets}

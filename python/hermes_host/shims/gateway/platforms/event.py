"""Messages that come in, and what becomes of those that go out."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gateway.session import SessionSource


class MessageType(enum.Enum):
    """What a message is."""

    TEXT = "text"
    LOCATION = "location"
    PHOTO = "photo"
    VIDEO = "video"
    AUDIO = "audio"
    VOICE = "voice"
    DOCUMENT = "document"
    STICKER = "sticker"
    COMMAND = "command"


class ProcessingOutcome(enum.Enum):
    """How the handling of a message ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


class EphemeralReply(str):
    """A reply that a platform may show for a while only."""


_PLAIN = (
    "text",
    "message_id",
    "media_urls",
    "media_types",
    "reply_to_message_id",
    "reply_to_text",
    "reply_to_author_id",
    "reply_to_author_name",
    "reply_to_is_own_message",
    "auto_skill",
    "channel_prompt",
    "channel_context",
    "internal",
    "metadata",
    "platform_update_id",
)


@dataclass
class MessageEvent:
    """A message that came in."""

    text: str = ""
    message_type: MessageType = MessageType.TEXT
    source: SessionSource | None = None
    raw_message: Any = None
    message_id: str | None = None
    platform_update_id: int | None = None
    media_urls: list[str] = field(default_factory=list)
    media_types: list[str] = field(default_factory=list)
    reply_to_message_id: str | None = None
    reply_to_text: str | None = None
    reply_to_author_id: str | None = None
    reply_to_author_name: str | None = None
    reply_to_is_own_message: bool = False
    auto_skill: Any = None
    channel_prompt: str | None = None
    channel_context: str | None = None
    internal: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: datetime = field(default_factory=datetime.now)
    user_id: str | None = None

    def is_command(self) -> bool:
        """Whether it begins with a slash."""
        return self.text.startswith("/")

    def get_command(self) -> str | None:
        """The command, without slash and bot name."""
        if not self.is_command():
            return None
        word = self.text.split(maxsplit=1)[0][1:].lower().split("@", 1)[0]
        return word if word and "/" not in word else None

    def get_command_args(self) -> str:
        """What follows the command."""
        if not self.is_command():
            return self.text
        parts = self.text.split(maxsplit=1)
        return parts[1] if len(parts) > 1 else ""

    def to_wire(self) -> dict[str, Any]:
        """As data."""
        out = {}
        for name in _PLAIN:
            value = getattr(self, name)
            out[name] = value.copy() if isinstance(value, (list, dict)) else value
        out["message_type"] = getattr(self.message_type, "value", self.message_type)
        out["source"] = self.source.to_dict() if self.source is not None else None
        return out

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> MessageEvent:
        """From data."""
        event = cls()
        for name in _PLAIN:
            if name in data:
                setattr(event, name, data[name])
        try:
            event.message_type = MessageType(data.get("message_type") or "text")
        except ValueError:
            event.message_type = MessageType.TEXT
        if isinstance(data.get("source"), dict):
            event.source = SessionSource.from_dict(data["source"])
            event.user_id = event.source.user_id
        event.raw_message = data.get("raw_message")
        if data.get("timestamp"):
            try:
                event.timestamp = datetime.fromisoformat(str(data["timestamp"]))
            except ValueError:
                pass
        return event


@dataclass
class SendResult:
    """What became of a message that went out."""

    success: bool
    message_id: str | None = None
    error: str | None = None
    raw_response: Any = None
    retryable: bool = False
    continuation_message_ids: tuple[str, ...] = ()


MessageHandler = Callable[[MessageEvent], Awaitable[Any]]

"""Who speaks in which conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.config import Platform

_FIELDS = (
    "chat_id",
    "chat_name",
    "chat_type",
    "user_id",
    "user_name",
    "thread_id",
    "chat_topic",
    "user_id_alt",
    "chat_id_alt",
    "scope_id",
    "guild_id",
    "parent_chat_id",
    "message_id",
    "profile",
    "role_authorized",
    "is_bot",
)


@dataclass
class SessionSource:
    """Where a message came from. It tells who speaks, not what they may do."""

    platform: Platform = Platform.LOCAL
    chat_id: str = ""
    chat_name: str | None = None
    chat_type: str = "dm"
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None
    chat_topic: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    is_bot: bool = False
    scope_id: str | None = None
    guild_id: str | None = None
    parent_chat_id: str | None = None
    message_id: str | None = None
    profile: str | None = None
    role_authorized: bool = False

    @property
    def description(self) -> str:
        """The conversation in words."""
        if self.platform is Platform.LOCAL:
            return "CLI terminal"
        name = self.chat_name or self.chat_id
        if self.chat_type == "dm":
            return f"DM with {self.user_name or self.user_id or 'user'}"
        return f"{self.chat_type}: {name}" + (
            f", thread: {self.thread_id}" if self.thread_id else ""
        )

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        out: dict[str, Any] = {"platform": self.platform.value}
        out.update({name: getattr(self, name) for name in _FIELDS})
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SessionSource:
        """From data."""
        source = cls(platform=Platform(str(data.get("platform") or "local")))
        for name in _FIELDS:
            if data.get(name) is not None:
                setattr(source, name, data[name])
        source.chat_id = str(data.get("chat_id") or "")
        return source


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
) -> str:
    """The key of a conversation."""
    platform = source.platform.value
    name = profile or source.profile
    agent = name if name and name != "default" else "main"
    parts = [f"agent:{agent}", platform]
    if source.chat_type == "dm":
        parts.append("dm")
        if source.chat_id or source.user_id:
            parts.append(str(source.chat_id or source.user_id))
        if source.thread_id:
            parts.append(str(source.thread_id))
        return ":".join(parts)
    parts.append(source.chat_type)
    if source.chat_id:
        parts.append(str(source.chat_id))
    if source.thread_id:
        parts.append(str(source.thread_id))
    per_user = thread_sessions_per_user if source.thread_id else group_sessions_per_user
    participant = source.user_id_alt or source.user_id
    if per_user and participant:
        parts.append(str(participant))
    return ":".join(parts)

"""Chat platforms and their settings."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Platform(enum.Enum):
    """A platform. Names that plugins bring become members when they are first used."""

    LOCAL = "local"
    TELEGRAM = "telegram"
    DISCORD = "discord"
    WHATSAPP = "whatsapp"
    SLACK = "slack"
    SIGNAL = "signal"
    MATTERMOST = "mattermost"
    MATRIX = "matrix"
    HOMEASSISTANT = "homeassistant"
    EMAIL = "email"
    SMS = "sms"
    DINGTALK = "dingtalk"
    API_SERVER = "api_server"
    WEBHOOK = "webhook"
    FEISHU = "feishu"
    WECOM = "wecom"
    WECOM_CALLBACK = "wecom_callback"
    WEIXIN = "weixin"
    BLUEBUBBLES = "bluebubbles"
    QQBOT = "qqbot"
    YUANBAO = "yuanbao"
    TEAMS = "teams"
    IRC = "irc"
    LINE = "line"

    @classmethod
    def _missing_(cls, value: object) -> Platform | None:
        if not isinstance(value, str) or not value.strip():
            return None
        clean = value.strip().lower()
        known = cls._value2member_map_.get(clean)
        if known is not None:
            return known  # type: ignore[return-value]
        member = object.__new__(cls)
        member._name_ = clean.upper().replace("-", "_")
        member._value_ = clean
        cls._value2member_map_[clean] = member
        cls._member_map_.setdefault(member._name_, member)
        return member


@dataclass
class HomeChannel:
    """Where a platform's unasked messages go."""

    platform: Platform = Platform.LOCAL
    chat_id: str = ""
    name: str = "Home"
    thread_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        out = {"platform": self.platform.value, "chat_id": self.chat_id, "name": self.name}
        if self.thread_id:
            out["thread_id"] = self.thread_id
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HomeChannel:
        """From data."""
        return cls(
            platform=Platform(data["platform"]),
            chat_id=str(data["chat_id"]),
            name=data.get("name", "Home"),
            thread_id=data.get("thread_id"),
        )


@dataclass
class PlatformConfig:
    """A platform's settings."""

    enabled: bool = False
    token: str | None = None
    api_key: str | None = None
    home_channel: HomeChannel | None = None
    reply_to_mode: str = "first"
    gateway_restart_notification: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As data."""
        out: dict[str, Any] = {"enabled": self.enabled, "extra": self.extra}
        for name in ("token", "api_key"):
            if getattr(self, name):
                out[name] = getattr(self, name)
        if self.home_channel is not None:
            out["home_channel"] = self.home_channel.to_dict()
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PlatformConfig:
        """From data."""
        home = data.get("home_channel")
        return cls(
            enabled=bool(data.get("enabled", False)),
            token=data.get("token"),
            api_key=data.get("api_key"),
            home_channel=HomeChannel.from_dict(home) if isinstance(home, dict) else None,
            reply_to_mode=data.get("reply_to_mode", "first"),
            extra=dict(data.get("extra") or {}),
        )


@dataclass
class SessionResetPolicy:
    """When a conversation starts afresh by itself."""

    mode: str = "none"
    at_hour: int = 4
    idle_minutes: int = 1440


@dataclass
class GatewayConfig:
    """Settings of all platforms."""

    platforms: dict[Platform, PlatformConfig] = field(default_factory=dict)
    default_reset_policy: SessionResetPolicy = field(default_factory=SessionResetPolicy)
    group_sessions_per_user: bool = True
    thread_sessions_per_user: bool = False

    def get_connected_platforms(self) -> list[Platform]:
        """Those that are switched on."""
        return [platform for platform, config in self.platforms.items() if config.enabled]


def load_gateway_config() -> GatewayConfig:
    """The settings in force."""
    from hermes_host import runtime

    config = GatewayConfig()
    platforms = runtime.read_config().get("platforms") or {}
    for name, data in platforms.items() if isinstance(platforms, dict) else ():
        if isinstance(data, dict):
            config.platforms[Platform(str(name))] = PlatformConfig.from_dict(data)
    return config

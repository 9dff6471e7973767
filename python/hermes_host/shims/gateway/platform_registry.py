"""Chat platforms that plugins bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class PlatformEntry:
    """A platform."""

    name: str
    label: str
    adapter_factory: Callable[..., Any]
    check_fn: Callable[..., Any]
    validate_config: Callable[..., Any] | None = None
    is_connected: Callable[..., Any] | None = None
    required_env: list[str] = field(default_factory=list)
    install_hint: str = ""
    setup_fn: Callable[..., Any] | None = None
    ensure_deps_fn: Callable[..., Any] | None = None
    source: str = "plugin"
    plugin_name: str = ""
    allowed_users_env: str = ""
    allow_all_env: str = ""
    max_message_length: int = 0
    pii_safe: bool = False
    emoji: str = "🔌"
    allow_update_command: bool = True
    platform_hint: str = ""
    env_enablement_fn: Callable[..., Any] | None = None
    apply_yaml_config_fn: Callable[..., Any] | None = None
    cron_deliver_env_var: str = ""
    standalone_sender_fn: Callable[..., Any] | None = None
    trusted_inbound: bool = False
    extra_prompt_fn: Callable[..., Any] | None = None
    message_formatter: Callable[..., Any] | None = None
    supports_threads: bool = False
    supports_reactions: bool = False
    config_schema: Any = None

    def given(self) -> list[str]:
        """The fields that are not as they were made."""
        out = []
        for item in fields(self):
            value = getattr(self, item.name)
            if value not in (None, "", [], 0, False) or item.name == "name":
                out.append(item.name)
        return sorted(out)


class PlatformRegistry:
    """All of them."""

    def __init__(self) -> None:
        self._entries: dict[str, PlatformEntry] = {}

    def register(self, entry: PlatformEntry) -> None:
        """Takes a platform."""
        self._entries[entry.name] = entry

    def unregister(self, name: str) -> bool:
        """Forgets one; whether it was there."""
        return self._entries.pop(name, None) is not None

    def get(self, name: str) -> PlatformEntry | None:
        """A platform."""
        return self._entries.get(name)

    def is_registered(self, name: str) -> bool:
        """Whether it is there."""
        return name in self._entries

    def all_entries(self) -> list[PlatformEntry]:
        """All of them."""
        return list(self._entries.values())

    def plugin_entries(self) -> list[PlatformEntry]:
        """Those of plugins."""
        return [entry for entry in self._entries.values() if entry.source == "plugin"]

    def create_adapter(self, name: str, config: Any) -> Any:
        """Makes an adapter; None if the platform is not there or not ready."""
        entry = self.get(name)
        if entry is None or not entry.check_fn():
            return None
        if entry.validate_config is not None and not entry.validate_config(config):
            return None
        return entry.adapter_factory(config)


platform_registry = PlatformRegistry()

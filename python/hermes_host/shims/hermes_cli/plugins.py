"""The plugin system, as plugins look at it from inside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from hermes_host import plugin as _plugin
from hermes_host import runtime
from hermes_host.context import PluginContext
from hermes_host.plugin import Manifest as PluginManifest

__all__ = [
    "PluginCapabilityError",
    "PluginContext",
    "PluginManager",
    "PluginManifest",
    "VALID_HOOKS",
    "VALID_MIDDLEWARE",
    "discover_plugins",
    "get_plugin_manager",
    "has_hook",
    "invoke_hook",
    "iter_hook_callbacks",
]

logger = logging.getLogger(__name__)

VALID_HOOKS: set[str] = set(runtime.settings.get("valid_hooks") or ())
VALID_MIDDLEWARE: set[str] = {"tool_request", "tool_execution", "llm_request", "llm_execution"}


class PluginCapabilityError(PermissionError):
    """The plugin was not granted what it asked for."""


PluginToolOverrideError = PluginCapabilityError


class LoadedPlugin:
    """A plugin as the list shows it."""

    def __init__(self, found: _plugin.Plugin) -> None:
        self.manifest = found.manifest
        self.module = found.module
        self.key = found.key
        self.enabled = found.error is None
        self.error = found.error


class PluginManager:
    """All plugins of this process."""

    _cli_ref: Any = None

    def __init__(self) -> None:
        self._discovered = True

    @property
    def _hooks(self) -> dict[str, list[Callable[..., Any]]]:
        return runtime.server.callables.hooks() if runtime.server is not None else {}

    @property
    def _plugins(self) -> dict[str, LoadedPlugin]:
        return {key: LoadedPlugin(found) for key, found in _plugin.plugins.items()}

    @property
    def _context_engine(self) -> Any:
        for found in _plugin.plugins.values():
            for engine in found.objects.get("context_engine", {}).values():
                return engine
        return None

    @property
    def _plugin_commands(self) -> dict[str, dict[str, Any]]:
        if runtime.server is None:
            return {}
        entries = runtime.server.callables.of_kind("command")
        return {entry.name: {"handler": entry.call, "plugin": entry.plugin} for entry in entries}

    @property
    def _plugin_tool_names(self) -> set[str]:
        from tools.registry import registry

        return set(registry._tools)

    def discover_and_load(self, *args: Any, **options: Any) -> None:
        """Does nothing: the runtime loads plugins."""

    def has_hook(self, name: str) -> bool:
        """Whether something in this process listens to a hook."""
        return bool(self._hooks.get(name))

    def iter_hook_callbacks(self, name: str) -> Iterator[Callable[..., Any]]:
        """Those who listen."""
        yield from self._hooks.get(name, [])

    def invoke_hook(self, name: str, **payload: Any) -> list[Any]:
        """Calls those who listen, in order; what they return, without nothing."""
        from hermes_host import narrow
        from hermes_host.loop import finish

        out = []
        for callback in self._hooks.get(name, []):
            try:
                value = finish(callback(**narrow.shape(callback).pick(payload)))
            except Exception as error:
                logger.warning("hook %s: %s raised %s", name, narrow.name_of(callback), error)
                continue
            if value is not None:
                out.append(value)
        return out

    def list_plugins(self) -> list[dict[str, Any]]:
        """What the list shows."""
        return [
            {"key": key, "name": found.name, "enabled": found.error is None, "error": found.error}
            for key, found in sorted(_plugin.plugins.items())
        ]

    def get_plugin(self, key: str) -> LoadedPlugin | None:
        """One plugin."""
        return self._plugins.get(key)


_manager = PluginManager()


def get_plugin_manager() -> PluginManager:
    """The one manager."""
    return _manager


def discover_plugins(*args: Any, **options: Any) -> None:
    """Does nothing: the runtime loads plugins."""


def has_hook(name: str) -> bool:
    """Whether something listens to a hook."""
    return _manager.has_hook(name)


def invoke_hook(name: str, **payload: Any) -> list[Any]:
    """Calls those who listen."""
    return _manager.invoke_hook(name, **payload)


def iter_hook_callbacks(name: str) -> Iterator[Callable[..., Any]]:
    """Those who listen."""
    return _manager.iter_hook_callbacks(name)


def get_plugin_commands() -> dict[str, dict[str, Any]]:
    """Slash commands of plugins."""
    return _manager._plugin_commands


def get_plugin_context_engine() -> Any:
    """The context engine of a plugin, if there is one."""
    return _manager._context_engine


def get_bundled_plugins_dir() -> Any:
    """The folder of plugins that come with the program: there are none."""
    from hermes_constants import get_hermes_home

    return get_hermes_home() / "bundled-plugins"


def _resolve_hook_callback_timeout(*args: Any, **options: Any) -> float:
    """The time limit of a callback."""
    value = (runtime.read_config().get("plugins") or {}).get("hook_callback_timeout", 30.0)
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return 30.0
    return min(seconds, 600.0) if seconds >= 0 else 30.0

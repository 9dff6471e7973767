"""The registry of tools: those of plugins in this process, and by name those of the runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hermes_host import runtime


class EnforcementDenied(Exception):
    """A tool call that a guard refused."""


class ToolEntry:
    """A tool that a plugin registered."""

    def __init__(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[..., Any] | None = None,
        requires_env: list[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        **further: Any,
    ) -> None:
        self.name = name
        self.toolset = toolset
        self.schema = schema
        self.handler = handler
        self.check_fn = check_fn
        self.requires_env = requires_env or []
        self.is_async = is_async
        self.description = description
        self.emoji = emoji
        for key, value in further.items():
            setattr(self, key, value)


class ToolRegistry:
    """All tools that this process knows."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolEntry] = {}

    def note(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[..., Any] | None,
        spec: dict[str, Any],
        **further: Any,
    ) -> None:
        """Remembers a tool that the runtime took."""
        known = {key: spec.get(key) for key in ("requires_env", "is_async", "description", "emoji")}
        self._tools[name] = ToolEntry(name, toolset, schema, handler, check_fn, **known, **further)  # type: ignore[arg-type]

    def register(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[..., Any] | None = None,
        requires_env: list[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        override: bool = False,
        **further: Any,
    ) -> None:
        """Registers a tool for the plugin whose code is running."""
        from hermes_host import origin
        from hermes_host.context import PluginContext
        from hermes_host.plugin import plugins

        call = origin.current()
        plugin = plugins.get(call.plugin) if call is not None else None
        if plugin is None:
            raise RuntimeError(f"the tool {name!r} is registered by no plugin")
        PluginContext(plugin).register_tool(
            name,
            toolset,
            schema,
            handler,
            check_fn,
            requires_env,
            is_async,
            description,
            emoji,
            override,
            via_ctx=False,
        )

    def deregister(self, name: str) -> None:
        """Forgets a tool."""
        self._tools.pop(name, None)

    def get_entry(self, name: str) -> ToolEntry | None:
        """A tool of a plugin."""
        return self._tools.get(name)

    def get_all_tool_names(self) -> list[str]:
        """The names of all tools, the runtime's too."""
        names = set(self._tools)
        for definition in runtime.call("tool.list") or []:
            names.add(definition.get("function", {}).get("name", ""))
        return sorted(names - {""})

    def get_schema(self, name: str) -> dict[str, Any] | None:
        """A tool's schema."""
        entry = self._tools.get(name)
        if entry is not None:
            return entry.schema
        for definition in runtime.call("tool.list") or []:
            function: dict[str, Any] = definition.get("function", {})
            if function.get("name") == name:
                return function
        return None

    def get_toolset_for_tool(self, name: str) -> str | None:
        """The toolset of a plugin's tool."""
        entry = self._tools.get(name)
        return entry.toolset if entry is not None else None

    def dispatch(self, name: str, args: dict[str, Any] | None = None, **further: Any) -> Any:
        """Runs a tool and gives its result."""
        return runtime.call("tool.dispatch", {"name": name, "arguments": args or {}})


registry = ToolRegistry()


def tool_error(message: Any, **extra: Any) -> str:
    """An error as a tool's result."""
    return json.dumps({"error": str(message), **extra}, ensure_ascii=False, default=str)


def tool_result(data: Any = None, **fields: Any) -> str:
    """A value as a tool's result."""
    value = fields if data is None else ({**data, **fields} if isinstance(data, dict) else data)
    return json.dumps(value, ensure_ascii=False, default=str)

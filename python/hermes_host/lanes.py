"""Plugins that hold a single place: the memory provider, the context engine.

They are chosen by a setting and get a context of their own, in which commands and skills do not
count; hooks and tools do, because providers bring their own.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

from .context import PluginContext
from .loop import finish
from .plugin import Plugin


class LaneContext(PluginContext):
    """The context of such a plugin."""

    def __init__(self, plugin: Plugin) -> None:
        super().__init__(plugin)
        self.provider: Any = None
        self.engine: Any = None

    def register_memory_provider(self, provider: Any) -> None:
        """Takes the provider."""
        self.provider = provider

    def register_context_engine(self, engine: Any) -> Any:
        """Takes the engine."""
        self.engine = engine
        return None

    def register_command(self, *args: Any, **options: Any) -> Any:
        """Does nothing."""
        return None

    def register_cli_command(self, *args: Any, **options: Any) -> Any:
        """Does nothing: the command line looks for `cli.py`."""
        return None

    def register_skill(self, *args: Any, **options: Any) -> Any:
        """Does nothing."""
        return None


def _subclass(target: Any, base: type) -> Any:
    module = target
    if not isinstance(target, types.ModuleType):
        import sys

        module = sys.modules.get(getattr(target, "__module__", ""))
    for value in vars(module).values() if module is not None else ():
        if (
            isinstance(value, type)
            and issubclass(value, base)
            and value is not base
            and not inspect.isabstract(value)
        ):
            return value()
    return None


def _run(plugin: Plugin, target: Any) -> LaneContext:
    context = LaneContext(plugin)
    register = getattr(target, "register", None)
    if register is None and callable(target) and not isinstance(target, (type, types.ModuleType)):
        register = target
    if callable(register):
        finish(register(context))
    return context


def _bases(value: Any) -> list[str]:
    return [
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in type(value).__mro__[1:]
        if kind.__module__ not in ("abc", "builtins")
    ]


def _safely(call: Any, default: Any = None) -> Any:
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}" if default is None else default


def memory(plugin: Plugin, target: Any) -> None:
    """Loads a memory provider."""
    from agent.memory_provider import MemoryProvider

    name = str(plugin.params.get("provider") or plugin.name)
    provider = _run(plugin, target).provider
    if provider is None:
        provider = _subclass(target, MemoryProvider)
    if provider is None:
        raise RuntimeError("load_memory_provider returned None")
    schemas = _safely(provider.get_tool_schemas, [])
    config = _safely(getattr(provider, "get_config_schema", list), [])
    facts = {
        "bases": _bases(provider),
        "class": type(provider).__name__,
        "config_keys": [item.get("key") for item in config or [] if isinstance(item, dict)],
        "is_available": bool(_safely(provider.is_available, False)),
        "loaded": True,
        "name": str(_safely(lambda: provider.name)),
        "system_prompt_block": repr(
            _safely(getattr(provider, "system_prompt_block", lambda: ""), "")
        ),
        "tools_before_initialize": sorted(
            str(schema.get("name") or schema.get("function", {}).get("name"))
            for schema in schemas or []
            if isinstance(schema, dict)
        ),
    }
    plugin.lane = {"memory": {name: facts}}
    PluginContext(plugin)._register("memory_provider", name, facts, None, provider)


def context_engine(plugin: Plugin, target: Any) -> None:
    """Loads a context engine."""
    from agent.context_engine import ContextEngine

    name = str(plugin.params.get("provider") or plugin.name)
    engine = _run(plugin, target).engine
    if engine is None:
        engine = _subclass(target, ContextEngine)
    if engine is None:
        raise RuntimeError("the plugin brings no context engine")
    facts = {"class": type(engine).__name__, "loaded": True}
    plugin.lane = {"context_engine": {name: facts}}
    facts = {**facts, "bases": _bases(engine)}
    PluginContext(plugin)._register("context_engine_lane", name, facts, None, engine)

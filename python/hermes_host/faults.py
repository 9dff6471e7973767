"""Exceptions across the pipe: their class by name, so that `except PermissionError` still works."""

from __future__ import annotations

import builtins
from typing import Any


class HostRefusal(RuntimeError):
    """The runtime refused something for which there is no nearer class."""


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as data."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    try:
        text = str(error)
    except Exception:  # a broken __str__ must not hide the error itself
        text = ""
    return {"code": -32000, "type": type(error).__name__, "types": kinds, "message": text}


def rebuild(error: dict[str, Any]) -> BaseException:
    """The nearest exception there is here for one that the runtime raised."""
    message = str(error.get("message", ""))
    for name in [error.get("type"), *(error.get("types") or [])]:
        if name == "PluginLlmTrustError":
            from agent.plugin_llm import PluginLlmTrustError

            return PluginLlmTrustError(message)
        if name == "CapabilityError":
            from hermes_cli.plugins import PluginCapabilityError

            return PluginCapabilityError(message)
        kind = getattr(builtins, str(name), None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(message)
            except TypeError:
                continue
    return HostRefusal(message)

"""Providers and engines that stay here: the runtime calls their methods by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import origin
from .loop import finish
from .plugin import plugins

if TYPE_CHECKING:
    from .server import Server


def serve(server: Server, params: dict[str, Any]) -> Any:
    """Calls a method of an object, or reads an attribute that is no method."""
    plugin = plugins.get(params["plugin"])
    if plugin is None:
        raise LookupError(f"no plugin {params['plugin']!r} is loaded")
    try:
        target = plugin.objects[params["kind"]][params["key"]]
    except KeyError:
        raise LookupError(f"{params['plugin']} has no {params['kind']} {params['key']!r}") from None
    name = params["method"]
    if name.startswith("_"):
        raise AttributeError(f"{name} is private")
    token = origin.enter(origin.Call(params.get("call") or {}, plugin.key))
    try:
        if "set" in params:
            setattr(target, name, params["set"])
            return None
        value = getattr(target, name)
        if callable(value):
            value = finish(value(*(params.get("args") or []), **(params.get("kwargs") or {})))
        return value
    finally:
        origin.leave(token)

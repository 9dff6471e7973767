"""Imports a plugin and runs its `register`.

A plugin that fails is undone as a whole: the runtime drops its registrations, this side its
callables and modules.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import threading
import traceback
import types
from typing import TYPE_CHECKING, Any

from . import origin, runtime
from .context import PluginContext
from .loop import finish
from .plugin import Plugin, plugins

if TYPE_CHECKING:
    from .server import Server


class NoRegister(Exception):
    """The plugin has nothing to call."""


def _namespace() -> None:
    if "hermes_plugins" not in sys.modules:
        module = types.ModuleType("hermes_plugins")
        module.__path__ = []
        sys.modules["hermes_plugins"] = module


def slug(key: str) -> str:
    """The module name of a plugin below `hermes_plugins`."""
    return key.replace("/", "__").replace("-", "_").replace(".", "_").replace(" ", "_")


def from_folder(key: str, folder: str) -> Any:
    """The module of a plugin that is a folder."""
    _namespace()
    name = f"hermes_plugins.{slug(key)}"
    path = os.path.join(folder, "__init__.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{folder} holds no __init__.py")
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for loaded in [n for n in sys.modules if n == name or n.startswith(name + ".")]:
            del sys.modules[loaded]
        raise
    return module


def from_entry_point(value: str) -> Any:
    """The object of an entry point, `module` or `module:attribute`."""
    name, _, attribute = value.partition(":")
    found: Any = importlib.import_module(name.strip())
    for part in filter(None, attribute.split("[")[0].strip().split(".")):
        found = getattr(found, part)
    return found


def _target(params: dict[str, Any]) -> Any:
    for folder in params.get("path_entries") or []:
        if folder not in sys.path:
            sys.path.append(folder)
    if params.get("folder"):
        return from_folder(str(params["key"]), str(params["folder"]))
    return from_entry_point(str(params["entry_point"]))


def _hook_folder(plugin: Plugin) -> Any:
    folder = str(plugin.params["folder"])
    name = f"hermes_hook_{os.path.basename(folder)}"
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, "handler.py"))
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} holds no handler.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, "handle", None)):
        raise NoRegister("handler.py has no handle() function")
    return module


def _register_of(target: Any) -> Any:
    register = getattr(target, "register", None)
    if callable(register):
        return register
    if callable(target) and not isinstance(target, types.ModuleType):
        return target
    raise NoRegister("no register() function")


def _bare(target: Any) -> bool:
    try:
        inspect.signature(target).bind()
    except (TypeError, ValueError):
        return False
    return True


def _brought(key: str) -> bool:
    module = sys.modules.get("providers")
    owners = getattr(module, "owners", None)
    return owners is not None and key in owners().values()


def load(server: Server, params: dict[str, Any]) -> dict[str, Any]:
    """Loads one plugin and says what it did."""
    plugin = Plugin(server, params)
    plugins[plugin.key] = plugin
    before = {thread.ident for thread in threading.enumerate()}
    call = origin.Call({"hook": "register"}, plugin.key)
    token = origin.enter(call)
    lane = params.get("lane") or "plugin"
    try:
        target = _hook_folder(plugin) if lane == "gateway-hook" else _target(params)
        plugin.module = target
        if lane == "gateway-hook":
            for event in params.get("events") or []:
                PluginContext(plugin)._register("gateway_hook", event, {}, {"call": target.handle})
        elif lane == "model-provider":
            # Importing it registers its profile. A target that needs no argument is called.
            if callable(target) and not isinstance(target, types.ModuleType) and _bare(target):
                finish(target())
            if not _brought(plugin.key):
                raise NoRegister("it registered no model provider")
        elif lane == "memory":
            from . import lanes

            lanes.memory(plugin, target)
        elif lane == "context-engine":
            from . import lanes

            lanes.context_engine(plugin, target)
        else:
            finish(_register_of(target)(PluginContext(plugin)))
    except BaseException as error:
        plugin.error = (
            f"{type(error).__name__}: {error}" if not isinstance(error, NoRegister) else str(error)
        )
        plugin.abandoned = True
        if not isinstance(error, (NoRegister, ImportError)):
            with contextlib.suppress(Exception):
                traceback.print_exc()
        server.callables.forget(plugin.key)
    finally:
        origin.leave(token)
    plugin.threads = sorted(
        thread.name
        for thread in threading.enumerate()
        if thread.ident not in before and not thread.name.startswith("hermes-")
    )
    return described(plugin)


def described(plugin: Plugin) -> dict[str, Any]:
    """What the doctor says of a plugin, as far as this side knows it."""
    return {
        "key": plugin.key,
        "loaded": plugin.error is None,
        "error": plugin.error,
        "ctx_used": sorted(plugin.used),
        "ctx_missing": sorted(plugin.absent),
        "lane": plugin.lane,
        "refused": plugin.refused,
        "hooks_unknown_to_host": sorted(set(plugin.unknown_hooks)),
        "imports": sorted(plugin.imports),
        "import_failures": {name: sorted(names) for name, names in sorted(plugin.missing.items())},
        "threads_started": plugin.threads,
        "objects": {kind: sorted(items) for kind, items in plugin.objects.items()},
    }


def report(server: Server, key: str | None) -> dict[str, Any]:
    """The same, now, of one plugin or of all."""
    providers = sys.modules.get("providers")
    registered = getattr(providers, "registered", dict)
    chosen = [plugins[key]] if key else list(plugins.values())
    return {"plugins": [described(plugin) for plugin in chosen], "model_providers": registered()}


def unload(server: Server, key: str) -> dict[str, Any]:
    """Ends a plugin: its own clean-up last one first, then everything it registered."""
    plugin = plugins.pop(key, None)
    errors: list[str] = []
    if plugin is None:
        return {"errors": [f"no plugin {key!r} is loaded"]}
    plugin.abandoned = True
    for callback in reversed(plugin.on_unload):
        try:
            finish(callback())
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    for task in plugin.tasks:
        task.cancel()
    server.callables.forget(key)
    prefix = f"hermes_plugins.{slug(key)}"
    for name in [n for n in sys.modules if n == prefix or n.startswith(prefix + ".")]:
        del sys.modules[name]
    runtime.tell("unloaded", {"plugin": key})
    return {"errors": errors}

"""Makes the modules of the original importable, and remembers who asked for what.

The real classes and facades lie in `shims`; that folder comes first on the path, and its packages
take in folders of the same name further on, so that a package that writes into `tools` or `plugins`
keeps its own modules. A module or a name that is not there raises ImportError, as plugins expect
when they guard an import, and is noted against the plugin that asked.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from typing import Any

from . import origin
from .plugin import plugins

SHIMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shims")

TOPS = frozenset(
    {
        "acp_adapter",
        "agent",
        "batch_runner",
        "cli",
        "cron",
        "gateway",
        "hermes_cli",
        "hermes_constants",
        "hermes_logging",
        "hermes_platform",
        "hermes_state",
        "hermes_time",
        "mcp_serve",
        "model_tools",
        "plugins",
        "pm",
        "providers",
        "run_agent",
        "tools",
        "toolset_distributions",
        "toolsets",
        "trajectory_compressor",
        "tui_gateway",
        "utils",
    }
)
"""The top-level names of the original."""


def _asking() -> str | None:
    """The plugin whose code is running: that of the call, else the first one on the stack."""
    call = origin.current()
    if call is not None and call.plugin:
        return call.plugin
    return None


def note(module: str, name: str | None, missing: bool) -> None:
    """Remembers that a plugin asked for a module, or a name in it."""
    plugin = plugins.get(_asking() or "")
    if plugin is None:
        return
    table = plugin.missing if missing else plugin.imports
    names = table.setdefault(module, set())
    if name:
        names.add(name)


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the shims and lets it say which of its names are missing."""

    def exec_module(self, module: Any) -> None:
        super().exec_module(module)
        if "__getattr__" in module.__dict__:
            return

        def absent(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            note(module.__name__, name, missing=True)
            raise AttributeError(
                f"module {module.__name__!r} has no attribute {name!r} in this runtime"
            )

        module.__getattr__ = absent


class _Shims:
    """Finds the modules of the shims first."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module of the shims."""
        top = fullname.partition(".")[0]
        if top not in TOPS:
            return None
        note(fullname, None, missing=False)
        base = os.path.join(SHIMS, *fullname.split("."))
        package = os.path.join(base, "__init__.py")
        if os.path.isfile(package):
            spec = importlib.machinery.ModuleSpec(
                fullname, _Loader(fullname, package), origin=package, is_package=True
            )
            folders = [base]
            for folder in path if path is not None else sys.path:
                further = os.path.join(folder, fullname.rpartition(".")[2])
                if further != base and os.path.isdir(further):
                    folders.append(further)
            spec.submodule_search_locations = folders
            spec.has_location = True
            return spec
        if os.path.isfile(base + ".py"):
            spec = importlib.machinery.ModuleSpec(
                fullname, _Loader(fullname, base + ".py"), origin=base + ".py"
            )
            spec.has_location = True
            return spec
        return None


class _Missing:
    """Asked last: what comes here is not there."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Never finds anything."""
        if fullname.partition(".")[0] in TOPS:
            note(fullname, None, missing=True)
        return None


def install() -> None:
    """Puts the shims in place, once."""
    if _Shims in sys.meta_path:
        return
    if SHIMS not in sys.path:
        sys.path.insert(0, SHIMS)
    sys.meta_path.insert(0, _Shims)  # type: ignore[arg-type]
    sys.meta_path.append(_Missing)  # type: ignore[arg-type]

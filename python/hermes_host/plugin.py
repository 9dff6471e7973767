"""One plugin as this process knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server import Server


class Manifest:
    """A plugin's manifest: its fields as attributes, None where one is absent."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        for name, value in data.items():
            if isinstance(name, str) and name.isidentifier():
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def get(self, name: str, default: Any = None) -> Any:
        """A field."""
        return self._data.get(name, default)


class Plugin:
    """A plugin that is being loaded, or was."""

    def __init__(self, server: Server, params: dict[str, Any]) -> None:
        self.server = server
        self.key = str(params["key"])
        self.name = str(params.get("name") or self.key)
        self.params = params
        self.manifest = Manifest(params.get("manifest") or {"name": self.name})
        self.module: Any = None
        self.abandoned = False
        self.error: str | None = None
        self.used: set[str] = set()
        self.refused: list[dict[str, Any]] = []
        self.unknown_hooks: list[str] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.on_unload: list[Callable[..., Any]] = []
        self.tasks: list[Any] = []
        self.threads: list[str] = []
        self.imports: dict[str, set[str]] = {}
        self.missing: dict[str, set[str]] = {}
        self.absent: set[str] = set()
        self.lane: dict[str, Any] = {}


plugins: dict[str, Plugin] = {}
"""Those of this process, by key."""

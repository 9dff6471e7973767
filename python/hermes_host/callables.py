"""The callables that plugins registered, by number, so that the runtime can name them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from . import narrow


class Entry:
    """One callable."""

    __slots__ = ("_shape", "call", "kind", "name", "plugin", "where")

    def __init__(self, call: Callable[..., Any], plugin: str, kind: str, name: str) -> None:
        self.call = call
        self.plugin = plugin
        self.kind = kind
        self.name = name
        self.where = narrow.name_of(call)
        self._shape: narrow.Shape | None = None

    def shape(self, skip: int = 0) -> narrow.Shape:
        """What it takes by name; looked up once."""
        if self._shape is None:
            self._shape = narrow.shape(self.call, skip)
        return self._shape


class Callables:
    """All of them."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def add(self, call: Callable[..., Any], plugin: str, kind: str, name: str) -> int:
        """Keeps a callable and gives it a number."""
        with self._lock:
            number = next(self._numbers)
            self._entries[number] = Entry(call, plugin, kind, name)
            return number

    def get(self, number: int) -> Entry:
        """A callable by its number."""
        try:
            return self._entries[number]
        except KeyError:
            raise LookupError(
                f"no callable has the number {number}; was its plugin unloaded?"
            ) from None

    def remove(self, number: int) -> None:
        """Forgets one."""
        with self._lock:
            self._entries.pop(number, None)

    def forget(self, plugin: str) -> None:
        """Forgets all of a plugin."""
        with self._lock:
            for number in [n for n, e in self._entries.items() if e.plugin == plugin]:
                del self._entries[number]

    def hooks(self) -> dict[str, list[Callable[..., Any]]]:
        """Hook callbacks by hook, in the order in which they were registered."""
        found: dict[str, list[Callable[..., Any]]] = {}
        for entry in list(self._entries.values()):
            if entry.kind == "hook":
                found.setdefault(entry.name, []).append(entry.call)
        return found

    def of_kind(self, kind: str) -> list[Entry]:
        """The entries of a kind."""
        return [entry for entry in list(self._entries.values()) if entry.kind == kind]

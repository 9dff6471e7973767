"""Long values that the runtime keeps here between calls, sent once and then by differences.

A list of messages is named by a key; each use says how many of its first items still hold and
which follow. A long text is named by its digest. Callbacks get a new list of the same items: what
one of them changes inside an item, later callbacks of this host see, and the runtime does not.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

_MOST_TEXTS = 64


class Mirror:
    """The values held."""

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}
        self._texts: OrderedDict[str, str] = OrderedDict()

    def update(self, changes: list[dict[str, Any]]) -> None:
        """Applies what came with a call; must run in the order in which calls arrive."""
        for change in changes:
            key = change["key"]
            if "text" in change:
                self._texts[key] = change["text"]
            elif change.get("drop"):
                self._lists.pop(key, None)
                self._texts.pop(key, None)
            else:
                # A new list: a call that is being served goes on with the one it was given.
                held = self._lists.get(key, [])
                self._lists[key] = held[: change.get("keep", 0)] + change.get("add", [])

    def resolve(self, payload: dict[str, Any]) -> dict[str, Any]:
        """A payload with its references replaced."""
        for name, value in payload.items():
            if isinstance(value, dict) and len(value) == 1:
                if "$list" in value:
                    payload[name] = self._lists.get(value["$list"], [])
                elif "$text" in value:
                    payload[name] = self._texts.get(value["$text"], "")
        return payload

    def held(self) -> list[str]:
        """The keys of the lists, for tests."""
        return list(self._lists)

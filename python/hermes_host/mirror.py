"""Long values that the runtime keeps here between calls, sent once and then by differences.

A row (a message) comes once, under a number. A list of rows is named by a key; each use says how
many of its first rows still hold and which follow. A long text is named by a key too. Callbacks get
a new list of the same rows: what one of them changes inside a row, later callbacks of this host see,
and the runtime does not.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

_MOST_TEXTS = 64


class Mirror:
    """The values held."""

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}
        self._rows: dict[int, Any] = {}
        self._texts: OrderedDict[str, str] = OrderedDict()

    def update(self, changes: list[dict[str, Any]]) -> None:
        """Applies what came with a call; must run in the order in which calls arrive."""
        for change in changes:
            if "new" in change:
                self._rows.update(enumerate(change["new"], change["from"]))
            elif "forget" in change:
                for number in change["forget"]:
                    self._rows.pop(number, None)
            elif "text" in change:
                self._texts[change["key"]] = change["text"]
            elif change.get("drop"):
                self._lists.pop(change["key"], None)
                self._texts.pop(change["key"], None)
            else:
                key, rows = change["key"], self._rows
                # A new list: a call that is being served goes on with the one it was given.
                held = self._lists.get(key, [])
                self._lists[key] = held[: change["keep"]] + [rows[n] for n in change["rows"]]

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

"""Small things for plugins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class SingletonSlot:
    """A value that is made once."""

    def __init__(self, make: Callable[[], Any] | None = None) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._value: Any = None

    def get(self, make: Callable[[], T] | None = None) -> Any:
        """The value, made if it is not there."""
        with self._lock:
            if self._value is None:
                maker = make or self._make
                self._value = maker() if maker is not None else None
            return self._value

    def set(self, value: Any) -> None:
        """Puts a value there."""
        with self._lock:
            self._value = value

    def clear(self) -> None:
        """Forgets it."""
        self.set(None)


def lazy_singleton(make: Callable[[], T]) -> Callable[[], T]:
    """A function that makes its value once."""
    slot = SingletonSlot(make)
    return slot.get

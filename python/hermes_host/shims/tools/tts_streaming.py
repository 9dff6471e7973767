"""Speech while an answer is being written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

_providers: dict[str, Any] = {}


class StreamingTTSProvider(ABC):
    """Speaks piece by piece."""

    name: str = ""
    sample_rate: int = 24000
    channels: int = 1
    sample_width: int = 2

    def is_available(self) -> bool:
        """Whether it is set up."""
        return True

    @abstractmethod
    def stream(self, text: str, **options: Any) -> Iterator[bytes]:
        """The sound of a text."""


def register(name: Any = None, provider: Any = None, **options: Any) -> Any:
    """Takes a provider; also as a decorator."""
    if provider is None and not isinstance(name, str):
        _providers[str(getattr(name, "name", name))] = name
        return name
    if provider is None:

        def take(found: Any) -> Any:
            _providers[str(name)] = found
            return found

        return take
    _providers[str(name)] = provider
    return provider

"""Variables that commands may see."""

from __future__ import annotations

from collections.abc import Iterable

_names: set[str] = set()


def register_env_passthrough(names: Iterable[str] | str) -> None:
    """Lets commands see variables."""
    _names.update([names] if isinstance(names, str) else names)
    from hermes_host import runtime

    runtime.tell("env_passthrough", {"names": sorted(_names)})


def is_env_passthrough(name: str) -> bool:
    """Whether commands may see a variable."""
    return name in _names


def get_all_passthrough() -> frozenset[str]:
    """All of them."""
    return frozenset(_names)

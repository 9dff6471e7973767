"""Gives a callback the arguments that it declares, and no others.

A callback written before a field existed goes on working. One that demands a name which is never
sent fails on each call, as it does in the original.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Shape:
    """What a callable takes by name."""

    __slots__ = ("everything", "names")

    def __init__(self, everything: bool, names: frozenset[str]) -> None:
        self.everything = everything
        self.names = names

    def pick(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a payload that the callable takes."""
        if self.everything:
            return {name: value for name, value in payload.items() if name[:1] != "\x00"}
        return {name: payload[name] for name in self.names if name in payload}


ALL = Shape(True, frozenset())


def shape(callback: Callable[..., Any], skip: int = 0) -> Shape:
    """The shape of a callable, its first `skip` positional parameters left out.

    What cannot be looked at is given everything.
    """
    try:
        parameters = list(inspect.signature(callback).parameters.values())
    except (TypeError, ValueError):
        return ALL
    names = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return ALL
        if skip and parameter.kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            skip -= 1
        elif parameter.kind in _NAMED:
            names.append(parameter.name)
    return Shape(False, frozenset(names))


def declared(callback: Callable[..., Any]) -> tuple[list[str], bool]:
    """The parameter names of a callable, and whether it takes any keyword: for the doctor."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return [], True
    return [p.name for p in parameters], any(p.kind is p.VAR_KEYWORD for p in parameters)


def name_of(callback: Any) -> str:
    """`module.qualified.name` of a callable, for messages."""
    target = inspect.unwrap(callback) if callable(callback) else callback
    while hasattr(target, "func") and not inspect.isroutine(target):
        target = target.func
    module = getattr(target, "__module__", None) or "?"
    name = getattr(target, "__qualname__", None) or type(target).__name__
    return f"{module}.{name}"


def keys(names: Iterable[str]) -> list[str]:
    """Sorted names."""
    return sorted(names)

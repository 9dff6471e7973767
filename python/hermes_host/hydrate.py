"""Makes the objects of a payload: real classes where plugins expect them, plain data elsewhere.

What a callback changes in an event is found by comparing it with what it was, and goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Attributes:
    """Data with attribute access, as objects of a provider's library have it."""

    def __init__(self, data: dict[str, Any]) -> None:
        for name, value in data.items():
            setattr(self, name, attributes(value))

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a field, as of a mapping."""
        return getattr(self, name, default)

    def model_dump(self) -> dict[str, Any]:
        """The data again."""
        return {name: plain(value) for name, value in vars(self).items()}

    def __repr__(self) -> str:
        return f"Attributes({self.model_dump()!r})"


def attributes(value: Any) -> Any:
    """Mappings as objects, all the way down."""
    if isinstance(value, dict):
        return Attributes(value)
    if isinstance(value, list):
        return [attributes(item) for item in value]
    return value


def plain(value: Any) -> Any:
    """The reverse of `attributes`."""
    if isinstance(value, Attributes):
        return value.model_dump()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _source(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    from gateway.session import SessionSource

    return SessionSource.from_dict(value)


def _event(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    from gateway.platforms.base import MessageEvent

    return MessageEvent.from_wire(value)


def _gateway(value: Any) -> Any:
    from gateway.run import facade

    return facade()


def _store(value: Any) -> Any:
    from gateway.run import facade

    return facade().session_store


def _error(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kind = type(str(value.get("type") or "ProviderError"), (Exception,), {})
    error = kind(value.get("message", ""))
    for name, field in value.items():
        if name not in ("type", "message"):
            setattr(error, name, field)
    return error


_FIELDS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "pre_gateway_dispatch": {"event": _event, "gateway": _gateway, "session_store": _store},
    "post_api_request": {"assistant_message": attributes},
    "transform_api_error_classification": {"error": _error},
    "on_kanban_dispatch_tick": {"result": attributes},
    "command": {"source": _source},
}

_BEFORE = "\x00before"
"""Where a payload keeps what its event was like; no field can have this name."""


def hydrate(hook: str, payload: dict[str, Any]) -> dict[str, Any]:
    """A payload with its objects made."""
    fields = _FIELDS.get(hook)
    if not fields:
        return payload
    made = dict(payload)
    for name, make in fields.items():
        if name in made:
            made[name] = make(made[name])
    event = made.get("event")
    if event is not None and hasattr(event, "to_wire"):
        made[_BEFORE] = event.to_wire()
    return made


def mutations(payload: dict[str, Any]) -> dict[str, Any] | None:
    """What changed in the event since it was last looked at."""
    before = payload.get(_BEFORE)
    if before is None:
        return None
    now = payload["event"].to_wire()
    changed = {name: value for name, value in now.items() if before.get(name) != value}
    if not changed:
        return None
    payload[_BEFORE] = now
    return {"event": changed}

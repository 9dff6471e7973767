"""Events between plugins and to surfaces."""

from __future__ import annotations

from typing import Any

from hermes_host import origin, runtime


def broadcast_plugin_event(
    event: str, payload: dict[str, Any] | None = None, **options: Any
) -> int:
    """Tells those who subscribed; how many."""
    call = origin.current()
    name = str(event)
    if ":" not in name and call is not None and call.plugin:
        name = f"{call.plugin}:{name}"
    return int(runtime.call("event.emit", {"event": name, "payload": payload or {}}))

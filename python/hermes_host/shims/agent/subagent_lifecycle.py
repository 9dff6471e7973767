"""Delegated agents, as plugins start and watch them."""

from __future__ import annotations

from typing import Any

from hermes_host import runtime


class SubagentLifecycle:
    """Starts and watches delegated agents."""

    def __init__(self, plugin_id: str) -> None:
        self._plugin = plugin_id

    def _ask(self, verb: str, **params: Any) -> Any:
        return runtime.call(f"subagent.{verb}", {"plugin": self._plugin, **params})

    def launch(self, **options: Any) -> Any:
        """Starts one."""
        return self._ask("launch", **options)

    def status(self, handle: Any) -> Any:
        """How one is doing."""
        return self._ask("status", handle=handle)

    def wait(self, handle: Any, timeout: float | None = None) -> Any:
        """Waits for one."""
        return self._ask("wait", handle=handle, timeout=timeout)

    def cancel(self, handle: Any) -> Any:
        """Ends one."""
        return self._ask("cancel", handle=handle)

    def result(self, handle: Any) -> Any:
        """What one found."""
        return self._ask("result", handle=handle)

    def reconnect(self, handle: Any) -> Any:
        """Finds one again."""
        return self._ask("reconnect", handle=handle)

    def steer(self, handle: Any, message: str) -> Any:
        """Says something to one."""
        return self._ask("steer", handle=handle, message=message)

"""Middleware: wrapping requests and their execution."""

from __future__ import annotations

from typing import Any

VALID_MIDDLEWARE = ("tool_request", "tool_execution", "llm_request", "llm_execution")


class LLMExecutionBlocked(Exception):
    """A middleware refuses a request to a model."""

    def __init__(self, reason: str = "", metadata: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.metadata = metadata or {}

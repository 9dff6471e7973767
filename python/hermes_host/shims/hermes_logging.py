"""Logging: what plugins log goes to the runtime's log."""

from __future__ import annotations

import logging
from typing import Any


def setup_logging(*args: Any, **options: Any) -> None:
    """Does nothing: the runtime owns the log."""


def get_logger(name: str) -> logging.Logger:
    """A logger."""
    return logging.getLogger(name)


def set_session_context(session_id: str) -> None:
    """Does nothing: lines are told apart by the call they belong to."""


def clear_session_context() -> None:
    """Does nothing, likewise."""

"""The folder of the conversation."""

from __future__ import annotations

import os
from pathlib import Path

from hermes_host import runtime


def resolve_agent_cwd(*args: object, **options: object) -> Path:
    """The folder in which tools work."""
    return Path(os.environ.get("TERMINAL_CWD") or runtime.settings.get("cwd") or os.getcwd())

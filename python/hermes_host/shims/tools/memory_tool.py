"""The built-in memory's files."""

from __future__ import annotations

from pathlib import Path


def get_memory_dir() -> Path:
    """Their folder."""
    from hermes_constants import get_hermes_home

    return get_hermes_home() / "memories"

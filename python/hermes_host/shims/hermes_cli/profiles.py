"""Profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_host import runtime


def get_active_profile_name() -> str:
    """The profile that this process serves."""
    return str(runtime.settings.get("profile") or "default")


def get_profile_dir(name: str) -> Path:
    """A profile's home folder."""
    from hermes_constants import get_default_hermes_root

    root = get_default_hermes_root()
    return root if name == "default" else root / "profiles" / name


def list_profiles() -> list[Any]:
    """The names of all profiles."""
    from hermes_constants import get_default_hermes_root

    folder = get_default_hermes_root() / "profiles"
    names = (
        sorted(item.name for item in folder.iterdir() if item.is_dir()) if folder.is_dir() else []
    )
    return ["default", *names]

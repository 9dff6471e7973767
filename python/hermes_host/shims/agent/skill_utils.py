"""Where skills lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hermes_host import runtime


def parse_config_string_list(value: Any) -> list[str]:
    """A list of texts from a setting that may be one text."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else []


def get_skill_search_roots() -> list[Path]:
    """The folders of skills, the profile's own first."""
    from hermes_constants import get_skills_dir

    skills = runtime.read_config().get("skills") or {}
    external = (
        parse_config_string_list(skills.get("external_dirs")) if isinstance(skills, dict) else []
    )
    return [get_skills_dir(), *(Path(os.path.expandvars(os.path.expanduser(d))) for d in external)]


def get_all_skills_dirs() -> list[Path]:
    """Those of them that are there."""
    return [folder for folder in get_skill_search_roots() if folder.is_dir()]

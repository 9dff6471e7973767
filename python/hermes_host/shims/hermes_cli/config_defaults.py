"""Variables that the setup asks for."""

from __future__ import annotations

from typing import Any

from hermes_cli.config import DEFAULT_CONFIG

OPTIONAL_ENV_VARS: dict[str, dict[str, Any]] = {}

__all__ = ["DEFAULT_CONFIG", "OPTIONAL_ENV_VARS"]

"""Secrets of the profile that is being served."""

from __future__ import annotations

import os
from typing import Any


class UnscopedSecretError(RuntimeError):
    """A secret was asked for outside any profile."""


def get_secret(name: str, default: Any = None, **options: Any) -> Any:
    """A secret: this process serves one profile, whose secrets are its variables."""
    value = os.environ.get(name)
    return default if value is None else value


def get_scoped_secret(name: str, default: Any = None, **options: Any) -> Any:
    """The same."""
    return get_secret(name, default)


def current_secret_scope() -> Any:
    """The variables in force."""
    return os.environ


def is_multiplex_active() -> bool:
    """Whether this process serves several profiles: never."""
    return False

"""Which files must not be touched. The runtime's own tools judge by their own rules; these are for
plugins that read and write files themselves.
"""

from __future__ import annotations

import os
from pathlib import Path

_SECRET_NAMES = frozenset(
    {".env", ".netrc", ".pgpass", ".npmrc", ".pypirc", "auth.json", "state.db"}
)
_SECRET_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure")


def _resolved(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(os.path.expanduser(os.fspath(path))))


def _is_secret(path: Path) -> bool:
    from hermes_constants import get_hermes_home

    home = _resolved(get_hermes_home())
    user = Path(os.path.expanduser("~"))
    if path.parent == home and path.name in _SECRET_NAMES:
        return True
    return any((user / folder) in (path, *path.parents) for folder in _SECRET_FOLDERS)


def is_write_denied(path: str) -> bool:
    """Whether a file must not be written."""
    real = _resolved(path)
    system = ("/etc", "/boot", "/usr", "/bin", "/sbin", "/proc", "/sys", "/dev")
    return _is_secret(real) or any(Path(top) in real.parents for top in system)


def get_write_denied_error(path: str, **options: object) -> str | None:
    """Why a file must not be written; None if it may."""
    return f"Write denied: {path} is a protected file" if is_write_denied(path) else None


def get_read_block_error(path: str, **options: object) -> str | None:
    """Why a file must not be read; None if it may."""
    return f"Access denied: {path} holds secrets" if _is_secret(_resolved(path)) else None


def is_write_approval_required(path: str, **options: object) -> bool:
    """Whether a person must agree before a file is written."""
    return False

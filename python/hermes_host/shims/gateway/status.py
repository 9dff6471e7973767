"""Which gateways run, and locks that keep two of them from one account."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any


def _lock_folder() -> Path:
    base = os.environ.get("HERMES_GATEWAY_LOCK_DIR") or os.environ.get("XDG_STATE_HOME")
    folder = Path(base) if base else Path.home() / ".local" / "state"
    return folder / "hermes" / "gateway-locks"


def _lock_path(scope: str, identity: str) -> Path:
    mark = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return _lock_folder() / f"{scope}-{mark}.lock"


def _alive(pid: Any) -> bool:
    try:
        os.kill(int(pid), 0)
    except (OSError, TypeError, ValueError):
        return False
    return True


def acquire_scoped_lock(
    scope: str, identity: str, metadata: dict[str, Any] | None = None
) -> tuple[bool, dict[str, Any] | None]:
    """Takes the lock of an account: whether it was taken, and who holds it."""
    path = _lock_path(scope, identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "pid": os.getpid(),
        "scope": scope,
        "metadata": metadata or {},
        "updated_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    for _ in range(2):
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            try:
                held = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                held = {}
            if held.get("pid") == os.getpid():
                return True, held
            if _alive(held.get("pid")):
                return False, held
            path.unlink(missing_ok=True)
            continue
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(record, out)
        return True, None
    return False, None


def release_scoped_lock(scope: str, identity: str) -> None:
    """Gives the lock of an account back."""
    path = _lock_path(scope, identity)
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if held.get("pid") == os.getpid():
        path.unlink(missing_ok=True)


def get_running_pid(*args: Any, **options: Any) -> int | None:
    """The process of the running gateway: none."""
    return None


def is_gateway_running(*args: Any, **options: Any) -> bool:
    """Whether a gateway runs: no."""
    return False


def read_runtime_status(*args: Any, **options: Any) -> dict[str, Any] | None:
    """What the running gateway says of itself: nothing."""
    return None


def write_runtime_status(**fields: Any) -> None:
    """Keeps what a platform says of itself."""
    from hermes_constants import get_hermes_home

    try:
        path = Path(get_hermes_home()) / "platform_status.json"
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, delete=False, encoding="utf-8"
        ) as out:
            json.dump(fields, out, default=str)
        os.replace(out.name, path)
    except OSError:
        pass

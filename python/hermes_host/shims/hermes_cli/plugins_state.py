"""`ctx.state`: a small store of a plugin's own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_lock = threading.Lock()


class PluginState:
    """Values by key in one JSON file, safe between threads and processes."""

    quota_bytes = 10 * 1024 * 1024

    def __init__(self, plugin_id: str) -> None:
        from hermes_host.context import data_folder

        self.data_dir = Path(data_folder(plugin_id))
        self.path = self.data_dir / "state.json"

    @staticmethod
    def _checked(key: Any) -> str:
        if not isinstance(key, str) or not _KEY.fullmatch(key) or ".." in key:
            raise ValueError(f"{key!r} cannot be a key of a plugin's state")
        return key

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with _lock, open(self.data_dir / "state.lock", "a", encoding="utf-8") as held:
            try:
                import fcntl

                fcntl.flock(held, fcntl.LOCK_EX)
            except ImportError:
                pass
            yield

    def _read(self) -> dict[str, Any]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        try:
            value = json.loads(text)
        except ValueError as error:
            raise RuntimeError(f"{self.path} is damaged and is left as it is: {error}") from error
        if not isinstance(value, dict):
            raise RuntimeError(f"{self.path} is damaged and is left as it is: no mapping")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """A value."""
        return self._read().get(self._checked(key), default)

    def set(self, key: str, value: Any) -> None:
        """Keeps a value; None removes it."""
        from utils import atomic_write_text

        self._checked(key)
        with self._held():
            data = self._read()
            if value is None:
                data.pop(key, None)
            else:
                data[key] = value
            text = json.dumps(data, ensure_ascii=False)
            if len(text.encode()) > self.quota_bytes:
                raise ValueError(f"a plugin's state holds at most {self.quota_bytes} bytes")
            atomic_write_text(os.fspath(self.path), text, 0o600)

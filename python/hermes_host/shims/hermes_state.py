"""The session store, for reading.

The database keeps the tables `sessions` and `messages` with the columns that plugins know; it is
opened so that nothing can be written.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from hermes_host import runtime


def _path() -> Path:
    return Path(str(runtime.settings.get("store") or Path(runtime.home()) / "state.db"))


def __getattr__(name: str) -> Any:
    if name == "DEFAULT_DB_PATH":
        return _path()
    raise AttributeError(f"module 'hermes_state' has no attribute {name!r} in this runtime")


class SessionDB:
    """The store. Methods that would write raise PermissionError."""

    def __init__(self, db_path: Any = None, **options: Any) -> None:
        self.db_path = Path(db_path) if db_path is not None else _path()
        self._connection: sqlite3.Connection | None = None

    def _rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        if not self.db_path.exists():
            return []
        if self._connection is None:
            self._connection = sqlite3.connect(
                f"file:{self.db_path}?mode=ro", uri=True, check_same_thread=False, timeout=5.0
            )
            self._connection.row_factory = sqlite3.Row
        return [dict(row) for row in self._connection.execute(sql, values).fetchall()]

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """One session's row."""
        rows = self._rows("SELECT * FROM sessions WHERE id = ?", session_id)
        return rows[0] if rows else None

    def list_sessions(
        self, limit: int = 20, offset: int = 0, source: str | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """Sessions, the newest first."""
        where, values = ("WHERE source = ? ", [source]) if source else ("", [])
        return self._rows(
            f"SELECT * FROM sessions {where}ORDER BY started_at DESC LIMIT ? OFFSET ?",
            *values,
            limit,
            offset,
        )

    def search_sessions(self, source: str | None = None, limit: int = 20, offset: int = 0) -> Any:
        """The same under its other name."""
        return self.list_sessions(limit, offset, source)

    def list_sessions_rich(self, source: str | None = None, limit: int = 20, **options: Any) -> Any:
        """The same, with room for more fields."""
        return self.list_sessions(limit, int(options.get("offset", 0)), source)

    def get_messages(self, session_id: str, **options: Any) -> list[dict[str, Any]]:
        """A session's messages, in order."""
        rows = self._rows("SELECT * FROM messages WHERE session_id = ? ORDER BY id", session_id)
        for row in rows:
            if row.get("tool_calls"):
                try:
                    row["tool_calls"] = json.loads(row["tool_calls"])
                except (TypeError, ValueError):
                    pass
        return rows

    def get_messages_as_conversation(self, session_id: str, **options: Any) -> list[dict[str, Any]]:
        """A session's messages as a model sees them."""
        out = []
        for row in self.get_messages(session_id):
            if not row.get("active", 1):
                continue
            message = {"role": row["role"], "content": row.get("content") or ""}
            for name in ("tool_call_id", "tool_calls", "tool_name"):
                if row.get(name):
                    message[name] = row[name]
            out.append(message)
        return out

    def search_messages(self, query: str, limit: int = 20, **options: Any) -> list[dict[str, Any]]:
        """Messages that hold a text, the newest first."""
        pattern = "%" + query.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        return self._rows(
            "SELECT * FROM messages WHERE content LIKE ? ESCAPE '\\' ORDER BY id DESC LIMIT ?",
            pattern,
            limit,
        )

    def session_count(self, source: str | None = None) -> int:
        """How many sessions there are."""
        where, values = ("WHERE source = ?", [source]) if source else ("", [])
        rows = self._rows(f"SELECT count(*) AS n FROM sessions {where}", *values)
        return int(rows[0]["n"]) if rows else 0

    def message_count(self, session_id: str | None = None) -> int:
        """How many messages there are."""
        where, values = ("WHERE session_id = ?", [session_id]) if session_id else ("", [])
        rows = self._rows(f"SELECT count(*) AS n FROM messages {where}", *values)
        return int(rows[0]["n"]) if rows else 0

    def get_session_title(self, session_id: str) -> str | None:
        """A session's title."""
        session = self.get_session(session_id)
        return session.get("title") if session else None

    def close(self) -> None:
        """Closes the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> SessionDB:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith(
            (
                "create_",
                "append_",
                "delete_",
                "update_",
                "set_",
                "end_",
                "rename_",
                "prune_",
                "archive_",
            )
        ):

            def refused(*args: Any, **options: Any) -> Any:
                raise PermissionError(f"SessionDB.{name}: plugins may read the store, not write it")

            return refused
        raise AttributeError(f"SessionDB has no {name!r} in this runtime")

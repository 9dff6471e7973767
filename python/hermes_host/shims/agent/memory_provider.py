"""What a memory provider is."""

from __future__ import annotations

import contextvars
import enum
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class RecallState(str, enum.Enum):
    """How a recall went."""

    OK = "ok"
    EMPTY = "empty"
    ERROR = "error"


@dataclass
class RecallStatus:
    """What is known of the last recall."""

    state: str = "ok"
    message: str = ""
    count: int = 0
    latency_ms: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


def spawn_context_thread(
    target: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    daemon: bool = True,
    start: bool = True,
    kwargs: dict[str, Any] | None = None,
    **further: Any,
) -> threading.Thread:
    """A thread that runs in a copy of the present context."""
    context = contextvars.copy_context()
    arguments = further.get("args", args)
    thread = threading.Thread(
        target=lambda: context.run(target, *arguments, **(kwargs or {})), name=name, daemon=daemon
    )
    if start:
        thread.start()
    return thread


_TRIVIAL = re.compile(
    r"(hi|hey|hello|thanks?|thank you|ok(ay)?|yes|no|yep|nope|sure|cool|great|bye|good (morning|night))"
    r"[\s.!?]*",
    re.IGNORECASE,
)


def is_trivial_prompt(text: Any) -> bool:
    """Whether a message is too small to look anything up for."""
    clean = str(text or "").strip()
    return len(clean) < 3 or clean.startswith("/") or bool(_TRIVIAL.fullmatch(clean))


class MemoryProvider(ABC):
    """A memory outside the built-in files."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its short name."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it is set up; without any request."""

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """A session begins."""

    @abstractmethod
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools it offers."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Runs one of them."""
        raise NotImplementedError(f"{self.name} has no tool {tool_name!r}")

    def unavailable_reason(self) -> str:
        """Why it is not available."""
        return ""

    def system_prompt_block(self) -> str:
        """A text for the prompt."""
        return ""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What it remembers for a message, before the turn."""
        return ""

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Begins to look something up for the next turn."""

    def recall_status(self) -> RecallStatus | None:
        """How the last recall went."""
        return None

    def sync_turn(
        self, user_content: str, assistant_content: str, *, session_id: str = "", **kwargs: Any
    ) -> None:
        """A turn has ended."""

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """A turn begins."""

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        """The session ends."""

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        """Another session takes its place."""

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        """A compaction is near; a text for its summary."""
        return ""

    def on_delegation(self, task: str, result: str, **kwargs: Any) -> None:
        """A delegated agent has ended."""

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: dict[str, Any] | None = None
    ) -> None:
        """The built-in memory was written."""

    def get_config_schema(self) -> list[dict[str, Any]]:
        """Its settings, for the setup."""
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Keeps settings of the setup."""

    def backup_paths(self) -> list[str]:
        """Files that belong into a backup."""
        return []

    def shutdown(self) -> None:
        """The end."""

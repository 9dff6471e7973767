"""What a context engine is: it decides when and how a conversation shrinks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class ContextEngine(ABC):
    """A context engine."""

    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    last_total_tokens: int = 0
    threshold_tokens: int = 0
    context_length: int = 0
    compression_count: int = 0
    threshold_percent: float = 0.75
    protect_first_n: int = 3
    protect_last_n: int = 6

    @property
    @abstractmethod
    def name(self) -> str:
        """Its short name."""

    @abstractmethod
    def update_from_response(self, usage: dict[str, Any]) -> None:
        """Takes the figures of an answer."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether it is time."""

    @abstractmethod
    def compress(
        self, messages: list[dict[str, Any]], current_tokens: int | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """The messages made shorter."""

    def should_compress_preflight(self, messages: list[dict[str, Any]]) -> bool:
        """Whether it is time before a request."""
        return False

    def has_content_to_compress(self, messages: list[dict[str, Any]]) -> bool:
        """Whether anything could be made shorter."""
        return True

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """A session begins."""

    def on_session_end(self, session_id: str, messages: list[dict[str, Any]]) -> None:
        """A session ends."""

    def on_session_reset(self) -> None:
        """Another session takes its place."""
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.compression_count = 0

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Tools it offers."""
        return []

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Runs one of them."""
        raise NotImplementedError(f"{self.name} has no tool {name!r}")

    def get_status(self) -> dict[str, Any]:
        """Figures for the person."""
        length = self.context_length or 0
        share = self.last_prompt_tokens / length * 100 if length else 0
        return {
            "last_prompt_tokens": self.last_prompt_tokens,
            "threshold_tokens": self.threshold_tokens,
            "context_length": length,
            "usage_percent": min(100, share),
            "compression_count": self.compression_count,
        }

    def update_model(self, model: str, context_length: int, **options: Any) -> None:
        """Another model is used."""
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)

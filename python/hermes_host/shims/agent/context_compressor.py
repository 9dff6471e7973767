"""The built-in context engine, as far as plugins build upon it.

Compaction itself is done by the runtime; an engine that calls `super().compress` gets the messages
back as they are, and the runtime's own compaction goes on.
"""

from __future__ import annotations

from typing import Any

from agent.context_engine import ContextEngine

SUMMARY_PREFIX = "[CONTEXT SUMMARY]"


class ContextCompressor(ContextEngine):
    """The built-in engine."""

    def __init__(
        self,
        model: str = "",
        threshold_percent: float = 0.5,
        protect_first_n: int = 3,
        protect_last_n: int = 20,
        summary_target_ratio: float = 0.2,
        quiet_mode: bool = True,
        summary_model_override: str | None = None,
        base_url: str = "",
        api_key: str = "",
        config_context_length: int | None = None,
        provider: str = "",
        api_mode: str = "",
        **further: Any,
    ) -> None:
        self.model = model
        self.base_url = base_url
        self.api_key = api_key
        self.provider = provider
        self.api_mode = api_mode
        self.threshold_percent = threshold_percent
        self.protect_first_n = protect_first_n
        self.protect_last_n = protect_last_n
        self.summary_target_ratio = summary_target_ratio
        self.quiet_mode = quiet_mode
        self.summary_model = summary_model_override or ""
        self.context_length = config_context_length or 0
        self.threshold_tokens = int(self.context_length * threshold_percent)
        self._previous_summary: str | None = None
        self.further = further

    @property
    def name(self) -> str:
        """Its short name."""
        return "compressor"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        """Takes the figures of an answer."""
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        self.last_total_tokens = int(usage.get("total_tokens") or 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether it is time."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return bool(self.threshold_tokens) and tokens >= self.threshold_tokens

    def compress(
        self, messages: list[dict[str, Any]], current_tokens: int | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """The messages as they are: the runtime makes them shorter."""
        return messages

    def _generate_summary(
        self, turns: list[dict[str, Any]], *args: Any, **options: Any
    ) -> str | None:
        """A summary by the model for compaction."""
        from agent.auxiliary_client import call_llm

        lines = [f"{turn.get('role')}: {turn.get('content')}" for turn in turns]
        prompt = "Summarise this conversation so that work can go on from it:\n\n" + "\n".join(
            lines
        )
        answer = call_llm(task="compression", messages=[{"role": "user", "content": prompt}])
        return str(answer.choices[0].message.content or "") or None

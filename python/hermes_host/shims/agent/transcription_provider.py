"""What a provider of transcription is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class TranscriptionProvider(ABC):
    """Writes down speech."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its short name."""

    @property
    def display_name(self) -> str:
        """Its name for people."""
        return self.name

    def is_available(self) -> bool:
        """Whether it is set up."""
        return True

    def list_models(self) -> list[dict[str, Any]]:
        """Its models."""
        return []

    def default_model(self) -> str | None:
        """The model where none is chosen."""
        models = self.list_models()
        return models[0].get("id") if models else None

    def get_setup_schema(self) -> dict[str, Any]:
        """Its settings, for the setup."""
        return {"name": self.display_name, "badge": "", "tag": "", "env_vars": []}

    @abstractmethod
    def transcribe(
        self,
        file_path: str,
        *,
        model: str | None = None,
        language: str | None = None,
        **extra: Any,
    ) -> dict[str, Any]:
        """Writes down a file: `{"success", "transcript", "error"}`."""

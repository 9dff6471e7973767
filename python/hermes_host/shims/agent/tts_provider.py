"""What a provider of speech is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

DEFAULT_OUTPUT_FORMAT = "mp3"
VALID_OUTPUT_FORMATS = ("mp3", "wav", "ogg", "opus", "flac", "aac", "pcm")


def resolve_output_format(value: Any) -> str:
    """A known format; the default where the value is none."""
    text = str(value or "").strip().lower().lstrip(".")
    return text if text in VALID_OUTPUT_FORMATS else DEFAULT_OUTPUT_FORMAT


class TTSProvider(ABC):
    """Speaks."""

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

    @property
    def voice_compatible(self) -> bool:
        """Whether what it makes can be sent as a voice message."""
        return False

    def list_voices(self) -> list[dict[str, Any]]:
        """Its voices."""
        return []

    def list_models(self) -> list[dict[str, Any]]:
        """Its models."""
        return []

    def default_voice(self) -> str | None:
        """The voice where none is chosen."""
        voices = self.list_voices()
        return voices[0].get("id") if voices else None

    def default_model(self) -> str | None:
        """The model where none is chosen."""
        models = self.list_models()
        return models[0].get("id") if models else None

    def get_setup_schema(self) -> dict[str, Any]:
        """Its settings, for the setup."""
        return {"name": self.display_name, "badge": "", "tag": "", "env_vars": []}

    @abstractmethod
    def synthesize(
        self,
        text: str,
        output_path: str,
        *,
        voice: str | None = None,
        model: str | None = None,
        speed: float | None = None,
        format: str = DEFAULT_OUTPUT_FORMAT,
        **extra: Any,
    ) -> str:
        """Speaks into a file and says where it is."""

    def stream(self, text: str, **options: Any) -> Iterator[bytes]:
        """Speaks piece by piece."""
        raise NotImplementedError(f"{self.name} does not stream")

"""What a provider of images is."""

from __future__ import annotations

import base64
import datetime
import uuid
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

DEFAULT_ASPECT_RATIO = "landscape"
VALID_ASPECT_RATIOS = ("landscape", "square", "portrait")


def resolve_aspect_ratio(value: Any) -> str:
    """A known shape; the default where the value is none."""
    text = str(value or "").strip().lower()
    return text if text in VALID_ASPECT_RATIOS else DEFAULT_ASPECT_RATIO


def save_b64_image(data: str, *, prefix: str = "image", extension: str = "png") -> Path:
    """Writes an image into the cache and says where."""
    from hermes_constants import get_hermes_home

    folder = get_hermes_home() / "cache" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.datetime.now().strftime("%Y%m%d_%H%M%S")
    path = folder / f"{prefix}_{stamp}_{uuid.uuid4().hex[:8]}.{extension}"
    path.write_bytes(base64.b64decode(data))
    return path


def success_response(
    *, image: str, model: str = "", prompt: str = "", provider: str = "", **extra: Any
) -> dict[str, Any]:
    """The answer when it worked."""
    return {
        "success": True,
        "image": image,
        "model": model,
        "prompt": prompt,
        "provider": provider,
        **extra,
    }


def error_response(
    *, error: str, error_type: str = "provider_error", provider: str = "", **extra: Any
) -> dict[str, Any]:
    """The answer when it did not."""
    return {
        "success": False,
        "image": None,
        "error": error,
        "error_type": error_type,
        "provider": provider,
        **extra,
    }


class ImageGenProvider(ABC):
    """Makes images."""

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

    def capabilities(self) -> dict[str, Any]:
        """What it can do."""
        return {"modalities": ["text"]}

    @abstractmethod
    def generate(
        self, prompt: str, aspect_ratio: str = DEFAULT_ASPECT_RATIO, **kwargs: Any
    ) -> dict[str, Any]:
        """Makes one."""

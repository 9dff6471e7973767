"""What a source of secrets is."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any


class ErrorKind(str, enum.Enum):
    """Why a source gave nothing."""

    NOT_CONFIGURED = "not_configured"
    AUTH = "auth"
    NETWORK = "network"
    INTERNAL = "internal"


@dataclass
class FetchResult:
    """What a source gave."""

    secrets: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    error_kind: ErrorKind | None = None
    warnings: list[str] = field(default_factory=list)


class SecretSource(ABC):
    """A source of secrets."""

    name: str = ""
    label: str = ""

    @abstractmethod
    def fetch(self, *args: Any, **options: Any) -> Any:
        """The secrets."""

    def is_available(self) -> bool:
        """Whether it is set up."""
        return True

    def config_schema(self) -> list[dict[str, Any]]:
        """Its settings."""
        return []

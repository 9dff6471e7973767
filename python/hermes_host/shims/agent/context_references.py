"""`@prefix:` references in the person's text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass
class ContextReference:
    """A reference and what it stands for."""

    prefix: str = ""
    target: str = ""
    content: str = ""
    warning: str = ""


class ContextReferenceProvider(ABC):
    """Resolves references of one prefix."""

    prefix: str = ""
    description: str = ""

    @abstractmethod
    def resolve(self, target: str, **options: Any) -> Any:
        """What a reference stands for."""

    def complete(self, partial: str, **options: Any) -> list[Any]:
        """Targets that begin so."""
        return []

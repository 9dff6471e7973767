"""What a provider of places for commands is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class TerminalEnvironmentProvider(ABC):
    """Makes places where commands run."""

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

    @abstractmethod
    def create_environment(self, **options: Any) -> Any:
        """Makes one."""


TerminalEnvProvider = TerminalEnvironmentProvider

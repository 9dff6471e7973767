"""What a provider of browsers is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class BrowserProvider(ABC):
    """Runs browsers somewhere."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its short name."""

    @property
    def display_name(self) -> str:
        """Its name for people."""
        return self.name

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it is set up."""

    @abstractmethod
    def create_session(self, task_id: str) -> dict[str, Any]:
        """Starts one."""

    @abstractmethod
    def close_session(self, session_id: str) -> bool:
        """Ends one."""

    def emergency_cleanup(self, session_id: str) -> None:
        """Ends one without waiting."""
        self.close_session(session_id)

    def get_setup_schema(self) -> dict[str, Any]:
        """Its settings, for the setup."""
        return {"name": self.display_name, "badge": "", "tag": "", "env_vars": []}

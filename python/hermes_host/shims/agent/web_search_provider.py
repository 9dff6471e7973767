"""What a provider of web search is."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any


def get_provider_env(name: str, default: str = "") -> str:
    """A variable of a provider, without white space around it."""
    return (os.environ.get(name) or default).strip()


class WebSearchProvider(ABC):
    """Searches the web, or reads pages, or both."""

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
        """Whether it is set up; without any request."""

    def supports_search(self) -> bool:
        """Whether it searches."""
        return True

    def supports_extract(self) -> bool:
        """Whether it reads pages."""
        return False

    def supports_crawl(self) -> bool:
        """Whether it follows links."""
        return False

    def search(self, query: str, limit: int = 5) -> dict[str, Any]:
        """Results for some words."""
        raise NotImplementedError(f"{self.name} does not search")

    def extract(self, urls: list[str], **options: Any) -> Any:
        """The content of pages."""
        raise NotImplementedError(f"{self.name} does not read pages")

    def crawl(self, url: str, **options: Any) -> Any:
        """The content of a page and those it links to."""
        raise NotImplementedError(f"{self.name} does not follow links")

    def get_setup_schema(self) -> dict[str, Any]:
        """Its settings, for the setup."""
        return {"name": self.display_name, "badge": "", "tag": "", "env_vars": []}

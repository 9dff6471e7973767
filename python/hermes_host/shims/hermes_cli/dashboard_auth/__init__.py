"""Ways to sign in to the dashboard."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any


class RefreshExpiredError(Exception):
    """A sign-in cannot be renewed any more."""


class ProviderError(Exception):
    """The provider of a sign-in failed."""


@dataclass
class LoginStart:
    """How a sign-in begins."""

    redirect_url: str = ""
    cookie_payload: dict[str, Any] = field(default_factory=dict)


@dataclass
class Session:
    """A person who is signed in."""

    user_id: str = ""
    email: str = ""
    display_name: str = ""
    org_id: str = ""
    provider: str = ""
    expires_at: float = 0.0
    access_token: str = ""
    refresh_token: str = ""


class DashboardAuthProvider(ABC):
    """A way to sign in."""

    name: str = ""
    display_name: str = ""
    supports_password: bool = False

    @abstractmethod
    def start_login(self, *, redirect_uri: str) -> LoginStart:
        """Begins."""

    @abstractmethod
    def complete_login(self, **options: Any) -> Session:
        """Ends."""

    @abstractmethod
    def verify_session(self, *, access_token: str) -> Session | None:
        """Whether somebody is still signed in."""

    @abstractmethod
    def refresh_session(self, *, refresh_token: str) -> Session:
        """Renews it."""

    @abstractmethod
    def revoke_session(self, *, refresh_token: str) -> None:
        """Ends it."""


_providers: dict[str, DashboardAuthProvider] = {}


def register_provider(provider: DashboardAuthProvider) -> None:
    """Takes one."""
    _providers[provider.name] = provider


def list_providers() -> list[DashboardAuthProvider]:
    """All of them."""
    return list(_providers.values())

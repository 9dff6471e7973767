"""Signing in to a model provider by OAuth with PKCE, as provider plugins declare it.

This program signs in to providers by keys only: a provider that needs this is listed, and its
sign-in says that it is not possible here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes_cli.auth_constants import AuthError


@dataclass(frozen=True)
class OAuthPKCEConfig:
    """Where and how one signs in."""

    provider_id: str = ""
    client_id: str = ""
    authorize_url: str = ""
    token_url: str = ""
    scopes: Any = ()
    redirect_uri: str = ""
    redirect_port: int = 0
    redirect_path: str = "/callback"
    inference_base_url: str = ""
    label: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def __init__(self, **fields: Any) -> None:
        known = self.__dataclass_fields__
        for name, item in known.items():
            default = item.default
            if name == "extra":
                value: Any = {key: value for key, value in fields.items() if key not in known}
            else:
                value = fields.get(name, default)
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        extra = self.__dict__.get("extra") or {}
        if name in extra:
            return extra[name]
        raise AttributeError(name)


def _err(message: str, **options: Any) -> AuthError:
    return AuthError(message)


def validate_config(config: Any) -> None:
    """Refuses a declaration without addresses."""
    for name in ("client_id", "authorize_url", "token_url"):
        if not getattr(config, name, ""):
            raise _err(f"{name} is missing")


def _refused(config: Any) -> AuthError:
    provider = getattr(config, "provider_id", "") or "this provider"
    return AuthError(f"signing in to {provider} by OAuth is not possible in this program yet")


def _post_token(config: Any, *args: Any, **options: Any) -> dict[str, Any]:
    raise _refused(config)


def pkce_auth_handler(config: Any, *args: Any, **options: Any) -> Any:
    """Makes what signs in."""

    def sign_in(*given: Any, **further: Any) -> Any:
        raise _refused(config)

    return sign_in


def pkce_refresh_credential(config: Any, *args: Any, **options: Any) -> Any:
    """Makes what renews a sign-in."""

    def renew(*given: Any, **further: Any) -> Any:
        raise _refused(config)

    return renew

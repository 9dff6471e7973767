"""Model providers that plugins bring."""

from __future__ import annotations

from typing import Any

from .base import ProviderProfile

__all__ = [
    "ProviderProfile",
    "get_provider_profile",
    "list_providers",
    "register_provider",
    "registered",
]

_profiles: dict[str, Any] = {}
_owners: dict[str, str] = {}


def register_provider(profile: Any) -> None:
    """Takes a provider; one of the same name gives way."""
    name = str(getattr(profile, "name", "") or "").strip().lower()
    if not name:
        raise ValueError("a provider needs a name")
    _profiles[name] = profile
    from hermes_host import origin, runtime

    call = origin.current()
    _owners[name] = call.plugin if call else ""
    runtime.tell("model_provider", {"name": name, "plugin": _owners[name]})


def owners() -> dict[str, str]:
    """Which plugin brought which."""
    return dict(_owners)


def get_provider_profile(name: str) -> Any:
    """A provider by its name or another name of it."""
    wanted = str(name).strip().lower()
    if wanted in _profiles:
        return _profiles[wanted]
    for profile in _profiles.values():
        if wanted in tuple(getattr(profile, "aliases", ()) or ()):
            return profile
    return None


def list_providers() -> list[Any]:
    """All of them."""
    return list(_profiles.values())


def registered() -> dict[str, dict[str, Any]]:
    """What the doctor says of them."""
    out = {}
    for name, profile in _profiles.items():
        out[name] = {
            "aliases": list(getattr(profile, "aliases", ()) or ()),
            "api_mode": getattr(profile, "api_mode", None),
            "auth_type": getattr(profile, "auth_type", None),
            "base_url": getattr(profile, "base_url", None),
            "class": type(profile).__name__,
            "plugin": _owners.get(name, ""),
            "env_vars": list(getattr(profile, "env_vars", ()) or ()),
        }
    return out

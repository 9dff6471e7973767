"""The settings file and the file of secrets."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes_constants import get_config_path, get_env_path, get_hermes_home

from hermes_host import runtime

__all__ = [
    "DEFAULT_CONFIG",
    "cfg_get",
    "ensure_hermes_home",
    "get_config_path",
    "get_env_path",
    "get_env_value",
    "get_hermes_home",
    "is_managed",
    "load_config",
    "load_config_readonly",
    "load_env",
    "read_raw_config",
    "remove_env_value",
    "save_config",
    "save_env_value",
    "write_platform_config_field",
]

DEFAULT_CONFIG: dict[str, Any] = {
    "model": "",
    "providers": {},
    "toolsets": ["hermes-cli"],
    "agent": {"max_turns": 90},
    "terminal": {"backend": "local", "cwd": ".", "timeout": 180},
    "compression": {"enabled": True, "threshold": 0.5},
    "display": {},
    "memory": {"memory_enabled": True, "user_profile_enabled": True, "provider": ""},
    "plugins": {"enabled": [], "disabled": [], "entries": {}},
    "hooks": {},
    "timezone": "",
}


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        out = {key: copy.deepcopy(value) for key, value in base.items()}
        for key, value in over.items():
            out[key] = _merged(out[key], value) if key in out else copy.deepcopy(value)
        return out
    return copy.deepcopy(over)


def read_raw_config() -> dict[str, Any]:
    """The settings as they stand in the file."""
    return copy.deepcopy(runtime.read_config())


def load_config() -> dict[str, Any]:
    """The settings over the defaults."""
    merged: dict[str, Any] = _merged(DEFAULT_CONFIG, runtime.read_config())
    return merged


def load_config_readonly() -> dict[str, Any]:
    """The same, not to be changed."""
    return load_config()


def cfg_get(config: Any, *keys: Any, default: Any = None) -> Any:
    """A value at a path of keys; also a dotted one."""
    if len(keys) == 1 and isinstance(keys[0], str) and "." in keys[0]:
        keys = tuple(keys[0].split("."))
    for key in keys:
        if not isinstance(config, dict) or key not in config:
            return default
        config = config[key]
    return default if config is None else config


def _changes(old: Any, new: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            if key not in old:
                yield [*path, str(key)], value
            elif old[key] != value:
                yield from _changes(old[key], value, [*path, str(key)])
    elif old != new:
        yield path, new


def save_config(config: dict[str, Any], **options: Any) -> None:
    """Writes what differs from the settings in force; everything else in the file stays as it is."""
    for path, value in list(_changes(load_config(), config, [])):
        runtime.call("config.set", {"path": path, "value": value})


def write_platform_config_field(platform: str, field: str, value: Any, **options: Any) -> None:
    """Writes one setting of a platform."""
    name = str(getattr(platform, "value", platform))
    runtime.call("config.set", {"path": ["platforms", name, str(field)], "value": value})


def load_env() -> dict[str, str]:
    """The file of secrets."""
    out: dict[str, str] = {}
    try:
        lines = get_env_path().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return out
    for line in lines:
        line = line.strip().removeprefix("export ")
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            out[name.strip()] = value
    return out


def get_env_value(key: str, default: Any = None) -> Any:
    """A variable: of the process, else of the file of secrets."""
    return os.environ.get(key) or load_env().get(key) or default


def save_env_value(key: str, value: str) -> None:
    """Writes a variable into the file of secrets."""
    if not key.isidentifier():
        raise ValueError(f"{key!r} cannot name a variable")
    clean = str(value).replace("\r", "").replace("\n", "")
    _write_env(key, clean)
    os.environ[key] = clean


def remove_env_value(key: str) -> bool:
    """Removes a variable from the file of secrets; whether it was there."""
    there = key in load_env()
    if there:
        _write_env(key, None)
    os.environ.pop(key, None)
    return there


def _write_env(key: str, value: str | None) -> None:
    from utils import atomic_write_text

    path = get_env_path()
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    kept = [
        line
        for line in lines
        if line.strip().removeprefix("export ").partition("=")[0].strip() != key
    ]
    if value is not None:
        quoted = f'"{value}"' if any(c in value for c in " #'") else value
        kept.append(f"{key}={quoted}")
    atomic_write_text(path, "\n".join(kept) + "\n", 0o600)


def ensure_hermes_home(*args: Any) -> None:
    """Makes the home folder."""
    Path(get_hermes_home()).mkdir(parents=True, exist_ok=True)


def is_managed() -> bool:
    """Whether somebody else manages the settings: no."""
    return False

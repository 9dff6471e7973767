"""Small things about files, variables and values."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

TRUTHY_STRINGS = frozenset({"1", "true", "yes", "on"})


def is_truthy_value(value: Any, default: bool = False) -> bool:
    """Whether a setting means yes."""
    if value is None:
        return default
    if isinstance(value, str):
        return value.strip().lower() in TRUTHY_STRINGS
    return bool(value)


def env_var_enabled(name: str, default: str = "") -> bool:
    """Whether a variable means yes."""
    return is_truthy_value(os.environ.get(name, default))


def env_bool(name: str, default: bool = False) -> bool:
    """A variable as a truth value."""
    return is_truthy_value(os.environ.get(name), default)


def env_int(name: str, default: int = 0) -> int:
    """A variable as a whole number."""
    try:
        return int(os.environ.get(name, "").strip())
    except ValueError:
        return default


def env_float(name: str, default: float = 0.0) -> float:
    """A variable as a number."""
    try:
        return float(os.environ.get(name, "").strip())
    except ValueError:
        return default


def atomic_write_text(path: str | os.PathLike[str], text: str, mode: int | None = None) -> None:
    """Replaces a file's text as a whole."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        if mode is not None:
            os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        try:
            os.unlink(name)
        except OSError:
            pass
        raise


def atomic_text_write(path: str | os.PathLike[str], text: str, **options: Any) -> None:
    """The same under its other name."""
    atomic_write_text(path, text, options.get("mode"))


def atomic_json_write(
    path: str | os.PathLike[str],
    data: Any,
    *,
    indent: int | None = 2,
    default: Any = None,
    mode: int | None = None,
    **options: Any,
) -> None:
    """Replaces a file's content by a value as JSON."""
    text = json.dumps(data, indent=indent, ensure_ascii=False, default=default or str)
    atomic_write_text(path, text, mode)


def atomic_yaml_write(path: str | os.PathLike[str], data: Any, **options: Any) -> None:
    """Replaces a file's content by a value as YAML. JSON is YAML, and needs no library."""
    try:
        import yaml

        text = yaml.safe_dump(data, allow_unicode=True, sort_keys=False)
    except ImportError:
        text = json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n"
    atomic_write_text(path, text)


def read_json_or_empty(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A mapping from a JSON file; an empty one where there is none."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def safe_json_loads(text: Any, default: Any = None) -> Any:
    """A JSON text's value, or `default`."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return default


def fast_safe_load(text: Any) -> Any:
    """A YAML text's value, read by the runtime."""
    from hermes_host import runtime

    if hasattr(text, "read"):
        text = text.read()
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return runtime.call("yaml.parse", {"text": str(text)})


def base_url_hostname(url: str) -> str:
    """The host of an address."""
    from urllib.parse import urlparse

    return (urlparse(url if "://" in url else f"https://{url}").hostname or "").lower()


def base_url_host_matches(url: str, domain: str) -> bool:
    """Whether an address is at a domain or below it."""
    host, domain = base_url_hostname(url), domain.lower()
    return host == domain or host.endswith("." + domain)

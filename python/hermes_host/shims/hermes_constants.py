"""Where things are."""

from __future__ import annotations

import contextvars
import os
from pathlib import Path

from hermes_host import runtime

_override: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "hermes_home_override", default=None
)

OPENROUTER_BASE_URL = "https://openrouter.ai/api/v1"


def get_hermes_home() -> Path:
    """The home folder of the profile that the running call belongs to."""
    return Path(_override.get() or runtime.home())


def get_default_hermes_root() -> Path:
    """The home folder above the folders of profiles."""
    home = get_hermes_home()
    return home.parent.parent if home.parent.name == "profiles" else home


def display_hermes_home() -> str:
    """The home folder as people write it."""
    home, user = str(get_hermes_home()), os.path.expanduser("~")
    return "~" + home[len(user) :] if home.startswith(user + os.sep) else home


def set_hermes_home_override(path: str | os.PathLike[str]) -> contextvars.Token[str | None]:
    """Another home folder for what runs in this context."""
    return _override.set(os.fspath(path))


def reset_hermes_home_override(token: contextvars.Token[str | None]) -> None:
    """Ends what `set_hermes_home_override` began."""
    _override.reset(token)


def get_hermes_dir(new_subpath: str, old_name: str = "") -> Path:
    """A folder below the home folder; the older one where only that exists."""
    home = get_hermes_home()
    if old_name and (home / old_name).exists() and not (home / new_subpath).exists():
        return home / old_name
    return home / new_subpath


def profile_name_for_home(home: str | os.PathLike[str] | None = None) -> str:
    """The profile whose home folder this is."""
    path = Path(home) if home is not None else get_hermes_home()
    return path.name if path.parent.name == "profiles" else "default"


def hermes_home_key(home: str | os.PathLike[str] | None = None) -> str:
    """A key that is the same for all spellings of a home folder."""
    return os.path.normcase(os.path.realpath(home if home is not None else get_hermes_home()))


def get_skills_dir() -> Path:
    """The folder of skills."""
    return get_hermes_home() / "skills"


def get_config_path() -> Path:
    """The settings file."""
    return get_hermes_home() / "config.yaml"


def get_env_path() -> Path:
    """The file of secrets."""
    return get_hermes_home() / ".env"


def get_subprocess_home() -> str | None:
    """The HOME of child processes, where it is not the person's."""
    return None


def is_termux() -> bool:
    """Whether this is Termux."""
    return "com.termux" in os.environ.get("PREFIX", "")


def is_wsl() -> bool:
    """Whether this is Linux under Windows."""
    try:
        return "microsoft" in Path("/proc/version").read_text(errors="replace").lower()
    except OSError:
        return False


def is_container() -> bool:
    """Whether this is a container."""
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")

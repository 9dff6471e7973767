"""What the rest of the host, and the classes that plugins import, need to know of the runtime:
its connection, the home folder, the profile, the gates of plugins.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .origin import Call
    from .server import Server

server: Server | None = None
settings: dict[str, Any] = {}
_stopping: list[Callable[[], None]] = []
_config_lock = threading.Lock()
_config: tuple[Any, dict[str, Any]] | None = None


def start(running: Server) -> None:
    """Makes a server the one of this process."""
    global server
    server = running


def configure(params: dict[str, Any]) -> None:
    """Takes what the runtime says at the beginning."""
    settings.clear()
    settings.update(params)
    path = os.environ.get("PATH", "")
    folder = params.get("cli_folder")
    if folder and folder not in path.split(os.pathsep)[:1]:
        os.environ["PATH"] = folder + os.pathsep + path if path else folder


def stop() -> None:
    """Runs what was to be run at the end."""
    for action in reversed(_stopping):
        with contextlib.suppress(Exception):
            action()


def at_stop(action: Callable[[], None]) -> None:
    """Asks for something to be run when the host ends."""
    _stopping.append(action)


def call(method: str, params: dict[str, Any] | None = None, timeout: float | None = None) -> Any:
    """Asks the runtime."""
    if server is None:
        raise ConnectionError("this process is not a plugin host: there is no runtime to ask")
    return server.peer.call(method, params, timeout)


def tell(method: str, params: dict[str, Any]) -> None:
    """Tells the runtime something; a runtime that has gone is not told."""
    if server is not None:
        with contextlib.suppress(Exception):
            server.peer.notify(method, params)


def notified(method: str, params: dict[str, Any]) -> None:
    """Takes what the runtime says without asking."""
    if method == "config_changed":
        global _config
        with _config_lock:
            _config = None


def home() -> str:
    """The home folder of the profile that this host serves."""
    return str(
        settings.get("home") or os.environ.get("HERMES_HOME") or os.path.expanduser("~/.hermes")
    )


def read_config() -> dict[str, Any]:
    """The settings file as data, parsed by the runtime; read again when the file changes."""
    global _config
    path = os.path.join(home(), "config.yaml")
    try:
        stat = os.stat(path)
        mark: Any = (path, stat.st_mtime_ns, stat.st_size)
    except OSError:
        return {}
    with _config_lock:
        if _config is not None and _config[0] == mark:
            return _config[1]
    read = call("config.read", {"path": path})
    value: dict[str, Any] = read if isinstance(read, dict) else {}
    with _config_lock:
        _config = (mark, value)
    return value


def log(level: str, message: str, plugin: str = "") -> None:
    """A line in the runtime's log."""
    if server is None:
        print(f"{level}: {message}", file=sys.stderr)
    else:
        tell("log", {"level": level, "message": message, "plugin": plugin})


@contextlib.contextmanager
def bound(call: Call) -> Iterator[None]:
    """Binds the session variables that plugins read while they are being called."""
    from . import sessions

    token = sessions.bind(call)
    try:
        yield
    finally:
        sessions.unbind(token)

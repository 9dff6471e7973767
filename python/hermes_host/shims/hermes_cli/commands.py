"""Slash commands of the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hermes_host import runtime


@dataclass(frozen=True)
class CommandDef:
    """A slash command."""

    name: str
    description: str = ""
    category: str = ""
    aliases: tuple[str, ...] = ()
    args_hint: str = ""
    cli_only: bool = False
    gateway_only: bool = False


GATEWAY_KNOWN_COMMANDS: frozenset[str] = frozenset(runtime.settings.get("commands") or ())
COMMAND_REGISTRY: list[CommandDef] = [CommandDef(name) for name in sorted(GATEWAY_KNOWN_COMMANDS)]


def resolve_command(name: str) -> CommandDef | None:
    """A command by its name."""
    wanted = str(name).lstrip("/").lower()
    return next((command for command in COMMAND_REGISTRY if command.name == wanted), None)


def should_bypass_active_session(name: Any) -> bool:
    """Whether a command runs while a turn runs."""
    return resolve_command(str(name or "")) is not None

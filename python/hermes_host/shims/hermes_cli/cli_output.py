"""Words for the person at a terminal."""

from __future__ import annotations

import getpass
from typing import Any


def print_header(text: str = "", **options: Any) -> None:
    """A heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def print_info(text: str = "", **options: Any) -> None:
    """A remark."""
    print(f"  {text}")


def print_success(text: str = "", **options: Any) -> None:
    """It worked."""
    print(f"  ok: {text}")


def print_warning(text: str = "", **options: Any) -> None:
    """A warning."""
    print(f"  warning: {text}")


def print_error(text: str = "", **options: Any) -> None:
    """It did not work."""
    print(f"  error: {text}")


def prompt(
    question: str, default: str | None = None, password: bool = False, **options: Any
) -> str:
    """Asks for a text; the default where nobody can be asked."""
    shown = f"{question} [{default}]: " if default and not password else f"{question}: "
    try:
        answer = getpass.getpass(shown) if password else input(shown)
    except (EOFError, OSError):
        answer = ""
    return answer.strip() or (default or "")


def prompt_yes_no(question: str, default: bool = True, **options: Any) -> bool:
    """Asks for yes or no."""
    answer = prompt(f"{question} ({'Y/n' if default else 'y/N'})").lower()
    return default if not answer else answer in ("y", "yes")


def prompt_choice(question: str, choices: list[str], default: int = 0, **options: Any) -> int:
    """Asks for one of several."""
    for index, choice in enumerate(choices, 1):
        print(f"  {index}. {choice}")
    answer = prompt(question, str(default + 1))
    return int(answer) - 1 if answer.isdigit() and 0 < int(answer) <= len(choices) else default

"""Pieces of the setup that plugins use."""

from hermes_cli.cli_output import (
    print_error,
    print_header,
    print_info,
    print_success,
    print_warning,
    prompt,
    prompt_choice,
    prompt_yes_no,
)
from hermes_cli.config import get_env_value, load_config, save_config, save_env_value

__all__ = [
    "get_env_value",
    "load_config",
    "print_error",
    "print_header",
    "print_info",
    "print_success",
    "print_warning",
    "prompt",
    "prompt_choice",
    "prompt_yes_no",
    "save_config",
    "save_env_value",
]

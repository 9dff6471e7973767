"""Versions."""

from hermes_host import COMPATIBLE

__version__ = COMPATIBLE
VERSION = COMPATIBLE


def get_version() -> str:
    """The version whose plugin interface is offered."""
    return COMPATIBLE

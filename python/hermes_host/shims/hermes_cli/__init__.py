"""The command line, as far as plugins reach for it."""

from hermes_host import COMPATIBLE as __version__

__all__ = ["__version__"]

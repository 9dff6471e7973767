"""The command line, as far as plugins reach for it."""

from hermes_host import COMPATIBLE

__version__ = COMPATIBLE

__all__ = ["__version__"]

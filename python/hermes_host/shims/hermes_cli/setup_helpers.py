"""Pieces of the setup, under their other name."""

from hermes_cli.setup import *  # noqa: F403

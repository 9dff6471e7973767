"""Registrations that can be given back."""

from hermes_host.context import Registration as PluginRegistration

__all__ = ["PluginRegistration"]

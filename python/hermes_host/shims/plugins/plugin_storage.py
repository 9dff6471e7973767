"""Where plugins keep files."""

from __future__ import annotations

from pathlib import Path


def get_plugin_data_dir(plugin_id: str, *, create: bool = True) -> Path:
    """A plugin's folder."""
    from hermes_host.context import data_folder

    folder = Path(data_folder(plugin_id))
    if create:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


plugin_data_dir = get_plugin_data_dir

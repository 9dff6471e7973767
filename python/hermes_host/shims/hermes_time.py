"""The time where the person is."""

from __future__ import annotations

import os
from datetime import datetime, tzinfo

from hermes_host import runtime


def get_timezone() -> tzinfo | None:
    """The time zone of the settings; None for the machine's own."""
    name = os.environ.get("HERMES_TIMEZONE") or runtime.read_config().get("timezone") or ""
    if not name:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError):
        return None


def now() -> datetime:
    """The present, with its time zone."""
    zone = get_timezone()
    return datetime.now(zone) if zone is not None else datetime.now().astimezone()

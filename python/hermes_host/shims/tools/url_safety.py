"""Whether an address may be fetched."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlparse


def is_safe_url(url: str) -> bool:
    """Whether an address leads to the public internet by http or https."""
    parts = urlparse(str(url))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return False
    try:
        found = socket.getaddrinfo(parts.hostname, None)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(item[4][0]).split("%")[0]).is_global for item in found)

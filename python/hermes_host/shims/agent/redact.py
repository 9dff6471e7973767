"""Hiding secrets in texts."""

from __future__ import annotations

import re
from typing import Any

_SECRETS = [
    re.compile(pattern)
    for pattern in (
        r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"\bAKIA[0-9A-Z]{16}\b",
        r"\bAIza[0-9A-Za-z_-]{30,}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----",
    )
]
_NAMED = re.compile(
    r"(?i)\b((?:api[_-]?key|token|secret|password|passwd|authorization)[\"']?\s*[:=]\s*[\"']?"
    r"(?:bearer\s+)?)([^\s\"',;]{6,})"
)
_added: list[re.Pattern[str]] = []


def _mask(secret: str) -> str:
    return "***" if len(secret) < 18 else f"{secret[:6]}...{secret[-4:]}"


def redact_sensitive_text(text: Any, **options: Any) -> Any:
    """The text with what looks like a secret hidden."""
    if not isinstance(text, str) or not text:
        return text
    for pattern in (*_SECRETS, *_added):
        text = pattern.sub(lambda match: _mask(match[0]), text)
    return _NAMED.sub(lambda match: match[1] + _mask(match[2]), text)


def redact_for_egress(value: Any, **options: Any) -> Any:
    """The same for values of any shape."""
    if isinstance(value, dict):
        return {key: redact_for_egress(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_for_egress(item) for item in value]
    return redact_sensitive_text(value)


redact = redact_sensitive_text


def add_patterns(patterns: Any) -> list[str]:
    """Adds patterns that begin with two literal characters; gives those that were taken."""
    taken = []
    for pattern in [patterns] if isinstance(patterns, str) else list(patterns or []):
        text = pattern.pattern if isinstance(pattern, re.Pattern) else str(pattern)
        if not re.match(r"(?:\\b)?[A-Za-z0-9_:/@-]{2}", text):
            continue
        try:
            _added.append(re.compile(text))
        except re.error:
            continue
        taken.append(text)
    return taken

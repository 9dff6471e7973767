"""Memory providers in use. The runtime holds them; here is what plugins look for."""

from __future__ import annotations

import re


def sanitize_context(text: str) -> str:
    """A text without marks that would end the block it stands in."""
    return re.sub(r"</?\s*memory-context\s*>", "", text, flags=re.IGNORECASE)


def build_memory_context_block(raw_context: str) -> str:
    """The block in which remembered text is given to a model."""
    if not raw_context or not raw_context.strip():
        return ""
    clean = sanitize_context(raw_context)
    return f"<memory-context>\nRemembered, not said just now:\n\n{clean}\n</memory-context>"

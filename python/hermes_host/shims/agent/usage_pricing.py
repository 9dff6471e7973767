"""What answers cost. The runtime counts tokens; it keeps no price list."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class CanonicalUsage:
    """Tokens of an answer, under one set of names."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    request_count: int = 1
    raw_usage: dict[str, Any] | None = None

    @property
    def prompt_tokens(self) -> int:
        """All that was read."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        """All of them."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True)
class BillingRoute:
    """Who sends the bill."""

    provider: str = ""
    model: str = ""
    base_url: str = ""
    billing_mode: str = "unknown"


@dataclass(frozen=True)
class CostResult:
    """A cost, where it is known."""

    amount_usd: Decimal | None = None
    status: str = "unknown"
    source: str = "none"
    label: str = ""
    fetched_at: Any = None
    pricing_version: str | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)


def normalize_usage(usage: Any, **options: Any) -> CanonicalUsage:
    """A provider's figures under one set of names."""
    data = usage if isinstance(usage, dict) else getattr(usage, "__dict__", {})
    details = data.get("prompt_tokens_details") or {}
    details = details if isinstance(details, dict) else getattr(details, "__dict__", {})
    cached = int(data.get("cache_read_tokens") or details.get("cached_tokens") or 0)
    prompt = int(data.get("prompt_tokens") or data.get("input_tokens") or 0)
    if "prompt_tokens" in data:
        prompt = max(0, prompt - cached)
    return CanonicalUsage(
        input_tokens=prompt,
        output_tokens=int(data.get("completion_tokens") or data.get("output_tokens") or 0),
        cache_read_tokens=cached,
        cache_write_tokens=int(data.get("cache_write_tokens") or 0),
        reasoning_tokens=int(data.get("reasoning_tokens") or 0),
    )


def resolve_billing_route(
    model: str, provider: str | None = None, base_url: str | None = None, **options: Any
) -> BillingRoute:
    """Who sends the bill."""
    return BillingRoute(provider=provider or "", model=model, base_url=base_url or "")


def estimate_usage_cost(model: str, usage: Any, **options: Any) -> CostResult:
    """The cost: unknown."""
    return CostResult()

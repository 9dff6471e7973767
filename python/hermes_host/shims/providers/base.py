"""What a model provider says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ProviderProfile:
    """A provider: where it is, how one signs in, what is odd about its requests."""

    name: str = ""
    api_mode: str = "chat_completions"
    aliases: tuple[str, ...] = ()
    display_name: str = ""
    description: str = ""
    signup_url: str = ""
    env_vars: tuple[str, ...] = ()
    base_url: str = ""
    models_url: str = ""
    auth_type: str = "api_key"
    supports_health_check: bool = True
    supports_vision: bool = False
    supports_vision_tool_messages: bool = True
    fallback_models: tuple[str, ...] = ()
    hostname: str = ""
    default_headers: dict[str, str] = field(default_factory=dict)
    fixed_temperature: Any = None
    default_max_tokens: int | None = None
    default_aux_model: str = ""
    auth_handler: Callable[..., Any] | None = None
    refresh_credential: Callable[..., Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def get_hostname(self) -> str:
        """The host of its endpoint."""
        from urllib.parse import urlparse

        return self.hostname or urlparse(self.base_url).hostname or ""

    def prepare_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages as the provider wants them."""
        return messages

    def build_extra_body(self, *, session_id: str | None = None, **context: Any) -> dict[str, Any]:
        """Further fields of a request's body."""
        return {}

    def build_api_kwargs_extras(
        self, *, reasoning_config: dict[str, Any] | None = None, **context: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Further fields: those of the body, and those beside it."""
        return {}, {}

    def fetch_models(
        self, *, api_key: str | None = None, base_url: str | None = None, timeout: float = 8.0
    ) -> list[str] | None:
        """The models that the endpoint lists; None if it does not say."""
        import json
        import urllib.request

        url = self.models_url or f"{(base_url or self.base_url).rstrip('/')}/models"
        if not url.startswith(("http://", "https://")):
            return None
        request = urllib.request.Request(url, headers=dict(self.default_headers))
        if api_key:
            request.add_header("Authorization", f"Bearer {api_key}")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                data = json.load(answer)
        except (OSError, ValueError):
            return None
        items = data.get("data", data) if isinstance(data, dict) else data
        return [item["id"] for item in items if isinstance(item, dict) and "id" in item]

    def get_max_tokens(self, model: str | None = None) -> int | None:
        """The longest answer to ask for; None for the provider's own limit."""
        return self.default_max_tokens

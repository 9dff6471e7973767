"""`ctx.llm`: calls to models within what was granted to the plugin."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hermes_host import runtime


class PluginLlmTrustError(PermissionError):
    """The plugin may not choose this."""


@dataclass
class PluginLlmUsage:
    """What an answer cost."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: float | None = None


@dataclass
class PluginLlmResult:
    """An answer."""

    text: str = ""
    provider: str = ""
    model: str = ""
    agent_id: str = ""
    usage: PluginLlmUsage = field(default_factory=PluginLlmUsage)
    audit: dict[str, Any] = field(default_factory=dict)


@dataclass
class PluginLlmStructuredResult(PluginLlmResult):
    """An answer that was read as data."""

    parsed: Any = None
    content_type: str = "text"


PluginLlmCompleteResult = PluginLlmResult


def _usage(data: Any) -> PluginLlmUsage:
    data = data if isinstance(data, dict) else {}
    names = PluginLlmUsage.__dataclass_fields__
    return PluginLlmUsage(**{name: data.get(name) for name in names})


def _check(value: Any, schema: Any, where: str = "$") -> None:
    """Refuses what does not fit the parts of a JSON schema that matter most."""
    if not isinstance(schema, dict):
        return
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else list(wanted or [])
    if names and not any(
        isinstance(value, kinds.get(name, object))
        and not (isinstance(value, bool) and name in ("integer", "number"))
        for name in names
    ):
        raise ValueError(f"{where} is {type(value).__name__}, wanted {' or '.join(names)}")
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"{where} is {value!r}, wanted one of {schema['enum']!r}")
    if isinstance(value, dict):
        for name in schema.get("required") or []:
            if name not in value:
                raise ValueError(f"{where} has no {name!r}")
        for name, inner in (schema.get("properties") or {}).items():
            if name in value:
                _check(value[name], inner, f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            _check(item, schema["items"], f"{where}[{index}]")


def _parse(text: str) -> Any:
    clean = text.strip()
    if clean.startswith("```"):
        clean = clean.split("\n", 1)[-1].rsplit("```", 1)[0]
    try:
        return json.loads(clean)
    except ValueError:
        return None


class PluginLlm:
    """The calls."""

    def __init__(self, plugin_id: str) -> None:
        self._plugin = plugin_id

    def _ask(self, messages: list[Any], options: dict[str, Any]) -> dict[str, Any]:
        params = {
            "plugin": self._plugin,
            "messages": messages,
            "options": {name: value for name, value in options.items() if value is not None},
        }
        answer: dict[str, Any] = runtime.call("llm.complete", params, options.get("timeout"))
        return answer

    def complete(self, messages: Any, **options: Any) -> PluginLlmResult:
        """Asks a model."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        answer = self._ask(messages, options)
        return PluginLlmResult(
            text=answer.get("text", ""),
            provider=answer.get("provider", ""),
            model=answer.get("model", ""),
            agent_id=answer.get("agent_id", ""),
            usage=_usage(answer.get("usage")),
            audit=answer.get("audit") or {},
        )

    def complete_structured(
        self,
        *,
        instructions: str,
        input: Any,
        json_schema: dict[str, Any] | None = None,
        json_mode: bool = False,
        schema_name: str | None = None,
        system_prompt: str | None = None,
        **options: Any,
    ) -> PluginLlmStructuredResult:
        """Asks a model for data."""
        system = system_prompt or ""
        if json_schema is not None:
            system += "\nAnswer with JSON of this schema only:\n" + json.dumps(json_schema)
        elif json_mode:
            system += "\nAnswer with JSON only."
        content = input if isinstance(input, (str, list)) else json.dumps(input, default=str)
        messages: list[dict[str, Any]] = (
            [{"role": "system", "content": system.strip()}] if system.strip() else []
        )
        messages.append({"role": "user", "content": instructions})
        messages.append({"role": "user", "content": content})
        options.update(
            json_schema=json_schema, json_mode=json_mode or None, schema_name=schema_name
        )
        answer = self._ask(messages, options)
        text = answer.get("text", "")
        parsed = _parse(text) if json_schema is not None or json_mode else None
        if parsed is not None and json_schema is not None:
            _check(parsed, json_schema)
        return PluginLlmStructuredResult(
            text=text,
            provider=answer.get("provider", ""),
            model=answer.get("model", ""),
            agent_id=answer.get("agent_id", ""),
            usage=_usage(answer.get("usage")),
            audit=answer.get("audit") or {},
            parsed=parsed,
            content_type="json" if parsed is not None else "text",
        )

    async def acomplete(self, messages: Any, **options: Any) -> PluginLlmResult:
        """`complete` without holding up the loop."""
        import asyncio

        return await asyncio.to_thread(self.complete, messages, **options)

    async def acomplete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """`complete_structured` without holding up the loop."""
        import asyncio

        return await asyncio.to_thread(self.complete_structured, **options)

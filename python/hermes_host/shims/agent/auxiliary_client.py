"""Calls to models beside the conversation, made by the runtime."""

from __future__ import annotations

from typing import Any

from hermes_host import origin, runtime
from hermes_host.hydrate import Attributes


def _completion(answer: dict[str, Any]) -> Any:
    raw = answer.get("raw")
    if isinstance(raw, dict) and raw.get("choices"):
        return Attributes(raw)
    text = answer.get("text", "")
    return Attributes(
        {
            "id": answer.get("id", ""),
            "model": answer.get("model", ""),
            "choices": [
                {
                    "index": 0,
                    "finish_reason": answer.get("finish_reason", "stop"),
                    "message": {
                        "role": "assistant",
                        "content": text,
                        "tool_calls": answer.get("tool_calls"),
                    },
                }
            ],
            "usage": {
                "prompt_tokens": 0,
                "completion_tokens": 0,
                "total_tokens": 0,
                **(answer.get("usage") or {}),
            },
        }
    )


def call_llm(
    task: str | None = None,
    *,
    provider: str | None = None,
    model: str | None = None,
    messages: list[dict[str, Any]] | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    tools: list[dict[str, Any]] | None = None,
    timeout: float | None = None,
    extra_body: dict[str, Any] | None = None,
    **further: Any,
) -> Any:
    """Asks a model; the answer has the shape of a chat completion."""
    call = origin.current()
    options = {
        "task": task,
        "provider": provider,
        "model": model,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "tools": tools,
        "timeout": timeout,
        "extra_body": extra_body,
    }
    params = {
        "plugin": call.plugin if call else "",
        "messages": messages or [],
        "options": {name: value for name, value in options.items() if value is not None},
        "auxiliary": True,
    }
    return _completion(runtime.call("llm.complete", params, timeout))


async def async_call_llm(task: str | None = None, **options: Any) -> Any:
    """The same without holding up the loop."""
    import asyncio

    return await asyncio.to_thread(call_llm, task, **options)


def extract_content_or_reasoning(response: Any) -> str:
    """The text of an answer, or its reasoning where it has no text."""
    message = response.choices[0].message
    for name in ("content", "reasoning_content", "reasoning"):
        value = getattr(message, name, None)
        if value:
            return str(value)
    return ""

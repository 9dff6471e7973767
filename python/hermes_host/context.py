"""What a plugin's `register` gets: the registrars and services of the original's context object.

Shapes and exceptions are checked here, because plugins test for them; what other plugins or the
runtime have registered is known to the runtime, which answers accepted, refused, or with an error.
A member that the original does not have must be absent: plugins probe for `config`, `settings` and
the like and take their default branch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import narrow, runtime
from .plugin import Plugin

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_SECTION = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_SKILL = re.compile(r"[a-zA-Z0-9_-]+")
_TRANSPORT = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RESERVED_SETTINGS = frozenset({"model", "plugins", "security", "settings"})
_MEMBERS = {
    "prompt_section": "system_prompt_section",
    "aux_task": "auxiliary_task",
    "redaction": "redaction_patterns",
}
_MIDDLEWARE = ("tool_request", "tool_execution", "llm_request", "llm_execution")


class Registration:
    """A registration that can be given back."""

    def __init__(self, plugin: Plugin, kind: str, key: str, handle: int, refs: list[int]) -> None:
        self.kind = kind
        self.key = key
        self.active = True
        self._plugin = plugin
        self._handle = handle
        self._refs = refs

    def dispose(self) -> None:
        """Gives it back; a second time does nothing."""
        if not self.active:
            return
        self.active = False
        runtime.call("dispose", {"handle": self._handle})
        for ref in self._refs:
            self._plugin.server.callables.remove(ref)


class PluginContext:
    """The context object."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self.manifest = plugin.manifest
        self._llm: Any = None
        self._state: Any = None

    def __getattr__(self, name: str) -> Any:
        # Members of the class never come here.
        plugin = self.__dict__.get("_plugin")
        if plugin is not None and not name.startswith("__"):
            plugin.absent.add(name)
        raise AttributeError(f"the plugin context has no {name!r}")

    # What the plugin is.

    @property
    def plugin_id(self) -> str:
        """The plugin's key."""
        return self._plugin.key

    @property
    def profile_name(self) -> str:
        """The profile that the host serves."""
        return str(runtime.settings.get("profile") or "default")

    @property
    def _manager(self) -> Any:
        from hermes_cli.plugins import get_plugin_manager

        return get_plugin_manager()

    def has_plugin(self, plugin_id: str) -> bool:
        """Whether a plugin is loaded and enabled."""
        return bool(runtime.call("plugin.has", {"id": str(plugin_id)}))

    def has_capability(self, capability: str) -> bool:
        """Whether a capability was granted."""
        return bool(
            runtime.call("capability.check", {"plugin": self.plugin_id, "capability": capability})
        )

    # Registering.

    def _register(
        self,
        kind: str,
        key: str,
        spec: dict[str, Any] | None = None,
        calls: Mapping[str, Callable[..., Any] | None] | None = None,
        value: Any = None,
    ) -> Registration | None:
        plugin = self._plugin
        if plugin.abandoned:
            return None
        plugin.used.add(f"register_{_MEMBERS.get(kind, kind)}")
        table = plugin.server.callables
        refs = {
            name: table.add(call, plugin.key, kind, key)
            for name, call in (calls or {}).items()
            if call is not None
        }
        names = {name: table.get(ref).where for name, ref in refs.items()}
        request = {
            "plugin": plugin.key,
            "kind": kind,
            "key": key,
            "spec": spec or {},
            "calls": refs,
            "names": names,
        }
        try:
            answer = runtime.call("register", request)
        except BaseException:
            for ref in refs.values():
                table.remove(ref)
            raise
        if not answer.get("accepted"):
            for ref in refs.values():
                table.remove(ref)
            reason = answer.get("reason") or "refused"
            plugin.refused.append({"kind": kind, "key": key, "reason": reason})
            runtime.log("warning", f"{plugin.key}: {kind} {key!r} is not registered: {reason}")
            return None
        if value is not None:
            plugin.objects.setdefault(kind, {})[key] = value
        return Registration(plugin, kind, key, int(answer["handle"]), list(refs.values()))

    def _callable(self, value: Any, what: str) -> Callable[..., Any]:
        if not callable(value):
            raise TypeError(f"{what} must be callable, got {type(value).__name__}")
        return value  # type: ignore[no-any-return]

    def register_hook(self, hook_name: str, callback: Callable[..., Any]) -> Registration | None:
        """Calls back when something happens. A name that does not exist is kept, and warned about."""
        if hook_name not in runtime.settings.get("valid_hooks", ()):
            runtime.log("warning", f"{self.plugin_id}: there is no hook {hook_name!r}")
            self._plugin.unknown_hooks.append(str(hook_name))
        declared, everything = narrow.declared(callback)
        spec = {"declared": declared, "var_kw": everything}
        return self._register("hook", str(hook_name), spec, {"call": callback})

    def register_middleware(self, kind: str, callback: Callable[..., Any]) -> Registration | None:
        """Rewrites requests, or wraps their execution."""
        if kind not in _MIDDLEWARE:
            runtime.log("warning", f"{self.plugin_id}: there is no middleware kind {kind!r}")
        return self._register("middleware", str(kind), {}, {"call": callback})

    def register_tool(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[..., Any] | None = None,
        requires_env: list[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        override: bool = False,
        **further: Any,
    ) -> Registration | None:
        """Offers a tool to the model."""
        from tools.registry import registry

        if not isinstance(schema, dict):
            raise ValueError(f"the schema of tool {name!r} must be a mapping")
        parameters = schema.get("parameters")
        if parameters is not None and not isinstance(parameters, dict):
            raise ValueError(f"the parameters of tool {name!r} must be a mapping")
        spec = {
            "toolset": toolset,
            "schema": schema,
            "requires_env": [str(item) for item in requires_env or []],
            "is_async": bool(is_async),
            "description": description or schema.get("description") or "",
            "emoji": emoji,
            "override": bool(override),
        }
        registration = self._register("tool", str(name), spec, {"call": handler, "check": check_fn})
        if registration is not None:
            registry.note(
                name, toolset, schema, handler, check_fn, spec, plugin=self.plugin_id, **further
            )
        return registration

    def register_command(
        self,
        name: str,
        handler: Callable[..., Any],
        description: str = "",
        args_hint: str = "",
        argument_mode: str | None = None,
        **further: Any,
    ) -> Registration | None:
        """Adds a slash command."""
        clean = str(name).strip().lower().lstrip("/").replace(" ", "-")
        if not clean:
            runtime.log("warning", f"{self.plugin_id}: a slash command needs a name")
            return None
        spec = {
            "description": description,
            "args_hint": args_hint,
            "argument_mode": argument_mode,
        }
        return self._register("command", clean, spec, {"call": handler})

    def register_cli_command(
        self,
        name: str,
        help: str = "",
        setup_fn: Callable[..., Any] | None = None,
        handler_fn: Callable[..., Any] | None = None,
        description: str = "",
        **further: Any,
    ) -> Registration | None:
        """Adds a command to the command line."""
        spec = {"help": help, "description": description}
        calls = {"setup": setup_fn, "call": handler_fn}
        return self._register("cli_command", str(name), spec, calls)

    def register_skill(
        self,
        name: str,
        path: Any,
        description: str = "",
        frontmatter: dict[str, Any] | None = None,
    ) -> Registration | None:
        """Brings a skill, named `<plugin>:<name>`."""
        name = str(name)
        if ":" in name or not _SKILL.fullmatch(name):
            raise ValueError(f"a skill's name may hold letters, digits, _ and -, got {name!r}")
        where = Path(path)
        if not where.exists():
            raise FileNotFoundError(f"the skill {name!r} is not at {where}")
        spec = {"path": str(where), "description": description, "frontmatter": frontmatter or {}}
        return self._register("skill", f"{self._plugin.name}:{name}", spec)

    def register_system_prompt_section(
        self,
        id: str,
        content: Any,
        *,
        position: str = "after_memory",
        max_chars: int = 4000,
    ) -> Registration | None:
        """Adds a section to the prompt of new sessions."""
        if not isinstance(id, str) or not _SECTION.fullmatch(id):
            raise ValueError(f"a section's id is lower case letters, digits, . _ and -, got {id!r}")
        spec: dict[str, Any] = {"position": position, "max_chars": max_chars}
        calls: dict[str, Callable[..., Any] | None] = {}
        if callable(content):
            calls["call"] = content
        else:
            spec["content"] = content if isinstance(content, str) else None
        return self._register("prompt_section", id, spec, calls)

    # Providers: the object stays here, the runtime knows its name.

    def _provider(self, kind: str, provider: Any, base: str, name: str | None = None) -> Any:
        module, _, class_name = base.rpartition(".")
        wanted = getattr(__import__(module, fromlist=[class_name]), class_name)
        if not isinstance(provider, wanted):
            runtime.log(
                "warning",
                f"{self.plugin_id}: {type(provider).__name__} does not inherit from {class_name}",
            )
            return None
        key = name or str(getattr(provider, "name", "") or type(provider).__name__)
        spec = {
            "class": type(provider).__name__,
            "bases": [
                f"{k.__module__}.{k.__qualname__}"
                for k in type(provider).__mro__[1:]
                if k.__module__ not in ("builtins", "abc")
            ],
        }
        return self._register(kind, key, spec, None, provider)

    def register_memory_provider(self, provider: Any) -> None:
        """Offers a memory provider; `memory.provider` decides whether it is used."""
        self._provider("memory_provider", provider, "agent.memory_provider.MemoryProvider")

    def register_context_engine(self, engine: Any) -> Any:
        """Takes over compaction; one engine at a time."""
        return self._provider("context_engine", engine, "agent.context_engine.ContextEngine")

    def register_context_reference(self, provider: Any) -> None:
        """Adds an `@prefix:` reference."""
        self._provider(
            "context_reference",
            provider,
            "agent.context_references.ContextReferenceProvider",
            str(getattr(provider, "prefix", "")) or None,
        )

    def register_image_gen_provider(self, provider: Any) -> Any:
        """Offers a maker of images."""
        return self._provider(
            "image_gen_provider", provider, "agent.image_gen_provider.ImageGenProvider"
        )

    def register_video_gen_provider(self, provider: Any) -> Any:
        """Offers a maker of films."""
        return self._provider(
            "video_gen_provider", provider, "agent.video_gen_provider.VideoGenProvider"
        )

    def register_web_search_provider(self, provider: Any) -> Any:
        """Offers web search."""
        return self._provider(
            "web_search_provider", provider, "agent.web_search_provider.WebSearchProvider"
        )

    def register_browser_provider(self, provider: Any) -> Any:
        """Offers a browser."""
        return self._provider(
            "browser_provider", provider, "agent.browser_provider.BrowserProvider"
        )

    def register_terminal_environment_provider(self, provider: Any) -> Any:
        """Offers a place where commands run."""
        return self._provider(
            "terminal_environment_provider",
            provider,
            "agent.terminal_env_provider.TerminalEnvironmentProvider",
        )

    def register_tts_provider(self, provider: Any) -> Any:
        """Offers speech."""
        return self._provider("tts_provider", provider, "agent.tts_provider.TTSProvider")

    def register_transcription_provider(self, provider: Any) -> Any:
        """Offers transcription."""
        return self._provider(
            "transcription_provider", provider, "agent.transcription_provider.TranscriptionProvider"
        )

    def register_secret_source(self, source: Any) -> Any:
        """Offers a place where secrets are kept."""
        return self._provider("secret_source", source, "agent.secret_sources.base.SecretSource")

    def register_dashboard_auth_provider(self, provider: Any) -> Any:
        """Offers a way to sign in to the dashboard."""
        return self._provider(
            "dashboard_auth_provider", provider, "hermes_cli.dashboard_auth.DashboardAuthProvider"
        )

    def register_platform(
        self,
        name: str,
        label: str,
        adapter_factory: Callable[..., Any],
        check_fn: Callable[..., Any],
        validate_config: Callable[..., Any] | None = None,
        required_env: list[str] | None = None,
        install_hint: str = "",
        **fields: Any,
    ) -> Registration | None:
        """Offers a chat platform."""
        from gateway.platform_registry import PlatformEntry, platform_registry

        entry = PlatformEntry(
            name=name,
            label=label,
            adapter_factory=adapter_factory,
            check_fn=check_fn,
            validate_config=validate_config,
            required_env=list(required_env or []),
            install_hint=install_hint,
            source="plugin",
            plugin_name=self._plugin.name,
            **fields,
        )
        spec = {
            "label": label,
            "required_env": list(required_env or []),
            "install_hint": install_hint,
            "fields": entry.given(),
        }
        calls = {"check": check_fn, "adapter_factory": adapter_factory}
        registration = self._register("platform", str(name), spec, calls, entry)
        if registration is not None:
            platform_registry.register(entry)
        return registration

    def register_platform_handler(self, platform: str, factory: Callable[..., Any]) -> None:
        """Adds a handler to a platform's own library object."""
        self._register("platform_handler", str(platform), {}, {"call": factory})

    def register_telegram_handler(self, factory: Callable[..., Any]) -> None:
        """Adds a handler to Telegram's library object."""
        self._register("platform_handler", "telegram", {}, {"call": factory})

    def register_slack_action_handler(self, action_id: str, callback: Callable[..., Any]) -> Any:
        """Adds a handler of a Slack action."""
        return self._register("slack_action_handler", str(action_id), {}, {"call": callback})

    def register_approval_transport(self, name: str, present: Callable[..., Any]) -> None:
        """Offers another way to ask for approvals."""
        if not isinstance(name, str) or not _TRANSPORT.fullmatch(name) or name == "builtin":
            raise ValueError(f"{name!r} cannot name an approval transport")
        self._register(
            "approval_transport", name, {}, {"call": self._callable(present, "a transport")}
        )

    def register_auxiliary_task(
        self,
        key: str,
        *,
        display_name: str = "",
        description: str = "",
        defaults: dict[str, Any] | None = None,
        inherit_from: str | None = None,
    ) -> Registration | None:
        """Declares a kind of side calls to models."""
        if not re.fullmatch(r"[A-Za-z0-9_]+", str(key)):
            raise ValueError(f"an auxiliary task's key is letters, digits and _, got {key!r}")
        spec = {
            "display_name": display_name,
            "description": description,
            "defaults": defaults or {},
            "inherit_from": inherit_from,
        }
        return self._register("aux_task", str(key), spec)

    def register_redaction_patterns(self, patterns: Any) -> int:
        """Adds patterns of secrets; each must start with two literal characters."""
        from agent.redact import add_patterns

        accepted = add_patterns(patterns)
        for pattern in accepted:
            self._register("redaction", pattern, {"pattern": pattern})
        return len(accepted)

    def register_locale(self, language: str, messages: Any) -> Any:
        """Brings translations."""
        return self._register("locale", str(language), {"messages": messages})

    def register_locale_dir(self, path: Any) -> Any:
        """Brings a folder of translations."""
        return self._register("locale", str(path), {"path": str(path)})

    def register_automation_blueprint(self, blueprint: Any) -> Any:
        """Brings a template of a scheduled task."""
        key = blueprint.get("id") if isinstance(blueprint, dict) else getattr(blueprint, "id", "")
        return self._register("automation_blueprint", str(key), {})

    # Settings and state.

    def _segments(self, key: Any) -> list[str]:
        if not isinstance(key, str) or "/" in key or "\\" in key:
            raise ValueError(f"a setting's key is dotted, got {key!r}")
        segments = key.split(".")
        if not all(_SEGMENT.fullmatch(segment) for segment in segments):
            raise ValueError(f"a setting's key is dotted words, got {key!r}")
        if segments[0] in _RESERVED_SETTINGS:
            raise ValueError(f"a plugin's setting cannot be below {segments[0]!r}")
        return segments

    def get_config(self, key: str, default: Any = None) -> Any:
        """A setting of this plugin."""
        segments = self._segments(key)
        entry = runtime.read_config()
        for name in ("plugins", "entries", self.plugin_id):
            entry = entry.get(name) if isinstance(entry, dict) else None  # type: ignore[assignment]
        for place in ("settings", "config"):
            value = entry.get(place) if isinstance(entry, dict) else None
            for segment in segments:
                value = value.get(segment) if isinstance(value, dict) else None
            if value is not None:
                return value
        return default

    def set_config(self, key: str, value: Any) -> None:
        """Sets a setting of this plugin, for good."""
        segments = self._segments(key)
        path = ["plugins", "entries", self.plugin_id, "settings", *segments]
        runtime.call("config.set", {"path": path, "value": value})

    @property
    def state(self) -> Any:
        """A small store of this plugin's own."""
        if self._state is None:
            from hermes_cli.plugins_state import PluginState

            self._state = PluginState(self.plugin_id)
        return self._state

    # Services.

    @property
    def llm(self) -> Any:
        """Calls to models, within what was granted."""
        if self._llm is None:
            from agent.plugin_llm import PluginLlm

            self._llm = PluginLlm(self.plugin_id)
        return self._llm

    def dispatch_tool(self, name: str, args: dict[str, Any] | None = None, **further: Any) -> Any:
        """Runs a tool and gives its result."""
        return runtime.call("tool.dispatch", {"name": str(name), "arguments": args or {}})

    def inject_message(
        self,
        content: str,
        role: str = "user",
        *,
        session_key: str | None = None,
        origin: Any = None,
    ) -> bool:
        """Puts a message into a conversation; true if it was taken."""
        if hasattr(origin, "to_dict"):
            origin = origin.to_dict()
        params = {
            "plugin": self.plugin_id,
            "content": content,
            "role": role,
            "session_key": session_key,
            "origin": origin,
        }
        return bool(runtime.call("inject_message", params))

    def call_mcp(
        self, server: str, tool: str, arguments: dict[str, Any] | None = None, timeout: float = 30
    ) -> dict[str, Any]:
        """Calls a tool of an MCP server that was granted."""
        params = {
            "plugin": self.plugin_id,
            "server": server,
            "tool": tool,
            "arguments": arguments or {},
            "timeout": max(1.0, min(float(timeout), 600.0)),
        }
        answer: dict[str, Any] = runtime.call("mcp.call", params)
        return answer

    @property
    def platform_actions(self) -> Any:
        """Reactions and titles on chat platforms."""
        from hermes_cli.platform_actions import PlatformActions

        return PlatformActions(self.plugin_id)

    @property
    def subagent_lifecycle(self) -> Any:
        """Delegated agents."""
        from agent.subagent_lifecycle import SubagentLifecycle

        return SubagentLifecycle(self.plugin_id)

    def emit(self, event: str, payload: dict[str, Any] | None = None) -> int:
        """Tells other plugins; says how many listen."""
        if not isinstance(event, str) or ":" in event or not event:
            raise ValueError(f"an event's name has no colon, got {event!r}")
        full = f"{self.plugin_id}:{event}"
        return int(runtime.call("event.emit", {"event": full, "payload": payload or {}}))

    def subscribe(self, full_name: str, callback: Callable[..., Any]) -> None:
        """Listens to another plugin's event, `<plugin>:<event>`."""
        self._register("subscription", str(full_name), {}, {"call": callback})

    def on_unload(self, callback: Callable[..., Any]) -> Any:
        """Calls back before the plugin is unloaded, the last one first."""
        self._plugin.on_unload.append(callback)
        return Registration(self._plugin, "on_unload", "", 0, [])

    def spawn_task(self, coro: Any, name: str | None = None) -> Any:
        """Runs a coroutine beside everything else, until the plugin is unloaded."""
        import asyncio

        from .loop import loop

        try:
            running: Any = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not None:
            task: Any = running.create_task(coro, name=name)
        else:
            task = asyncio.run_coroutine_threadsafe(coro, loop())
        self._plugin.tasks.append(task)
        return task


def data_folder(plugin_id: str) -> str:
    """Where a plugin keeps its files: a name that is safe everywhere and belongs to one plugin."""
    import hashlib

    slug = re.sub(r"[^a-z0-9]+", "-", plugin_id.lower()).strip("-") or "plugin"
    mark = hashlib.sha256(plugin_id.encode("utf-8", "replace")).hexdigest()[:8]
    return os.path.join(runtime.home(), "plugin-data", f"agent-plugin-{slug}-{mark}")

"""Asks for every service once, in a command, and says what came of it."""

import json

CTX = None


def attempt(call):
    """What a call gives, or the class of what it raises."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}"


def services(raw_args):
    """Everything that can be asked for."""
    from agent.auxiliary_client import call_llm
    from gateway.run import _gateway_runner_ref
    from hermes_cli.config import cfg_get, get_env_value, load_config
    from hermes_state import SessionDB
    from tools.registry import registry

    calls = {
        "plugin_id": lambda: CTX.plugin_id,
        "profile_name": lambda: CTX.profile_name,
        "manifest": lambda: CTX.manifest.version,
        "has_plugin": lambda: [CTX.has_plugin("services"), CTX.has_plugin("nobody")],
        "has_capability": lambda: CTX.has_capability("tools.override"),
        "config": lambda: CTX.get_config("greeting", "none"),
        "load_config": lambda: cfg_get(load_config(), "plugins", "enabled"),
        "env": lambda: get_env_value("MEMBER_KEY"),
        "state": lambda: (CTX.state.set("a", 1), CTX.state.get("a"))[1],
        "dispatch_tool": lambda: CTX.dispatch_tool("echo", {"text": "hi"}),
        "registry": lambda: registry.dispatch("echo", {"text": "ho"}),
        "inject_message": lambda: CTX.inject_message("from a plugin"),
        "llm": lambda: CTX.llm.complete([{"role": "user", "content": "q"}]).text,
        "llm_model": lambda: CTX.llm.complete("q", model="other").text,
        "call_llm": lambda: call_llm(task="title", messages=[{"role": "user", "content": "q"}])
        .choices[0]
        .message.content,
        "mcp": lambda: CTX.call_mcp("server", "tool"),
        "emit": lambda: CTX.emit("nothing", {}),
        "sessions": lambda: SessionDB().session_count(),
        "sessions_write": lambda: SessionDB().delete_session("x"),
        "gateway": lambda: _gateway_runner_ref() is None,
        "absent": lambda: CTX.settings,
    }
    return json.dumps({name: attempt(call) for name, call in calls.items()}, sort_keys=True)


def register(ctx):
    """One command."""
    global CTX
    CTX = ctx
    ctx.register_command("services", services)

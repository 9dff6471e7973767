"""A plugin: one hook and one slash command."""


def before_turn(session_id, user_message, is_first_turn=False, **fields):
    """What is returned is added to the person's message; None adds nothing."""
    if is_first_turn:
        return "Answer in one paragraph."
    return None


def hello(raw_args, *, session_id="", platform="", source=None):
    """`/hello`: `source` says who asks; None for a person at the terminal."""
    who = source.user_id if source is not None else "you"
    return f"Hello {who}, this is session {session_id or '(none yet)'}."


def register(ctx):
    """Called once when the plugin is loaded."""
    ctx.register_hook("pre_llm_call", before_turn)
    ctx.register_command("hello", hello, description="Says hello")

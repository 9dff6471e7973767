"""After a compaction the next turn of the session gets its rules again."""

RULES = "Rules of this project: answer in one paragraph, name every file you touch."

_waiting = set()


def compacted(session_id, **fields):
    """Remembers that a session needs its rules."""
    _waiting.add(session_id)


def before_turn(session_id, **fields):
    """Gives them back, once."""
    if session_id in _waiting:
        _waiting.discard(session_id)
        return RULES
    return None


def register(ctx):
    """Two hooks."""
    ctx.register_hook("post_compaction", compacted)
    ctx.register_hook("pre_llm_call", before_turn)

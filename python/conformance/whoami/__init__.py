"""`/whoami`: who asks, on which platform, in which session; and a command of only some people."""

ADMINS = {"u-admin"}


def whoami(raw_args, *, session_id="", platform="", source=None):
    """Works without a session and for a local user."""
    user = source.user_id if source is not None else "local"
    return f"user {user} on {platform or 'cli'}, session {session_id or '(none yet)'}"


def old_style(raw_args):
    """A handler of before."""
    return f"got {raw_args!r}"


async def everything(raw_args, **given):
    """A handler that takes whatever there is, and is awaited."""
    return ",".join(sorted(given))


def wipe(raw_args, *, source=None):
    """Who speaks is no permission: decided by a stable id, refused without one."""
    if source is None or source.user_id not in ADMINS:
        return "refused"
    return "wiped"


def register(ctx):
    """Four commands."""
    ctx.register_command("whoami", whoami, description="Says who asks")
    ctx.register_command("old_style", old_style)
    ctx.register_command("everything", everything)
    ctx.register_command("wipe", wipe)

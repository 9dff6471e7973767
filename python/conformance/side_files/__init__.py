"""Keeps a side file for each session and drops it when the session is deleted."""

from hermes_constants import get_hermes_home


def _folder():
    folder = get_hermes_home() / "side-files"
    folder.mkdir(exist_ok=True)
    return folder


def started(session_id, **fields):
    """Writes the file."""
    (_folder() / f"{session_id}.txt").write_text("notes")


def deleted(session_id, deleted_ids=None, **fields):
    """Drops the files of all sessions of the operation."""
    for gone in deleted_ids or [session_id]:
        (_folder() / f"{gone}.txt").unlink(missing_ok=True)


def register(ctx):
    """Two hooks."""
    ctx.register_hook("on_session_start", started)
    ctx.register_hook("on_session_delete", deleted)

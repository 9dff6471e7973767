"""Whether the person has stopped the turn."""

from __future__ import annotations


def is_interrupted() -> bool:
    """Whether the running call was cancelled."""
    from hermes_host import loop, origin

    call = origin.current()
    return call is not None and loop.is_cancelled(call.number)


def set_interrupt(*args: object, **options: object) -> None:
    """Does nothing: a turn is stopped by the runtime."""

"""Commands that plugins add to the command line: parsed and run here, what they print goes back."""

from __future__ import annotations

import argparse
import contextlib
import io
from typing import TYPE_CHECKING, Any

from . import origin
from .loop import finish

if TYPE_CHECKING:
    from .server import Server


def run(server: Server, params: dict[str, Any]) -> dict[str, Any]:
    """Runs one command."""
    parser = argparse.ArgumentParser(
        prog=f"hermes {params['command']}", description=params.get("help") or None
    )
    setup, handler = params.get("setup"), params.get("handler")
    out, err = io.StringIO(), io.StringIO()
    token = origin.enter(origin.Call({"hook": "cli"}, params.get("plugin", "")))
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if setup is not None:
                server.callables.get(setup).call(parser)
            given = parser.parse_args([str(item) for item in params.get("argv") or []])
            call = getattr(given, "func", None)
            if handler is not None:
                call = server.callables.get(handler).call
            if call is None:
                parser.print_help()
            else:
                result = finish(call(given))
                code = result if isinstance(result, int) and not isinstance(result, bool) else 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            code = end.code or 0
        else:
            err.write(f"{end.code}\n")
            code = 1
    finally:
        origin.leave(token)
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}

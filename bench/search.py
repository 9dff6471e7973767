"""Fills the store of Hermes Agent with the messages of store_bench and times its search and writes.

Run by search.sh with the interpreter of the environment that holds hermes-agent. Prints one JSON
object a line, in the form of store_bench.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def fill(folder: Path, messages: Path) -> None:
    """Writes every message in a transaction of its own, as the original does."""
    from hermes_state import SessionDB

    folder.mkdir(parents=True, exist_ok=True)
    store = SessionDB(folder / "state.db")
    store._conn.execute("PRAGMA synchronous = FULL")
    known: set[str] = set()
    rows = 0
    spent = 0.0
    with messages.open(encoding="utf-8") as lines:
        for line in lines:
            message = json.loads(line)
            session = message["session"]
            if session not in known:
                known.add(session)
                store.create_session(session, "cli")
            begun = time.perf_counter()
            store.append_message(session, message["role"], content=message["content"])
            spent += time.perf_counter() - begun
            rows += 1
    store.close()
    size = sum(path.stat().st_size for path in folder.glob("state.db*") if path.is_file())
    report = {"rows": rows, "seconds": round(spent, 3), "rows_per_s": round(rows / spent)}
    print(json.dumps({**report, "bytes": size}))


def ask(folder: Path, questions: Path, runs: int) -> None:
    """Times the tool on every question; the first run warms up."""
    from hermes_state import SessionDB
    from tools.session_search_tool import session_search

    store = SessionDB(folder / "state.db")
    times: dict[str, list[float]] = {}
    for run in range(runs + 1):
        for asked in json.loads(questions.read_text(encoding="utf-8")):
            begun = time.perf_counter()
            answer = session_search(query=asked["query"], limit=5, db=store)
            took = (time.perf_counter() - begun) * 1000
            if not answer:
                raise SystemExit("the original gave no answer")
            if run > 0:
                times.setdefault(asked["kind"], []).append(took)
    for kind, values in sorted(times.items()):
        values.sort()
        last = len(values) - 1
        p50, p95 = (round(values[round(last * share)], 3) for share in (0.5, 0.95))
        print(json.dumps({"kind": kind, "p50": p50, "p95": p95}))


def main(arguments: list[str]) -> None:
    match arguments:
        case ["fill", folder, messages]:
            fill(Path(folder), Path(messages))
        case ["ask", folder, questions, runs]:
            ask(Path(folder), Path(questions), int(runs))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Runs the `overhead` example several times and holds the medians against the limits."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

LIMITS: list[tuple[str, str, float | None]] = [
    ("process start above the interpreter's own", "start_above_interpreter_ms", 100.0),
    ("pre_llm_call, 1 MB of history, first call", "pre_llm_call_first_ms", 20.0),
    ("pre_llm_call, later calls, median", "pre_llm_call_later_ms", 3.0),
    ("20 observers on an API call: waited, first call", "observers_wait_first_ms", 5.0),
    ("20 observers on an API call: waited, later, median", "observers_wait_later_ms", 5.0),
    ("20 observers on an API call: waited, later, worst", "observers_wait_worst_ms", None),
    ("  until all have heard it, behind, first call", "observers_through_first_ms", None),
    ("  until all have heard it, behind, later, median", "observers_through_later_ms", None),
    ("20 observers of a hook that is waited for, first call", "waited_first_ms", None),
    ("20 observers of a hook that is waited for, later", "waited_later_ms", None),
    ("no plugin: a hook that nobody hears", "nothing_enabled_ms", 0.1),
    ("no plugin: processes", "nothing_enabled_processes", 0.0),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--example", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    for _ in range(options.runs):
        out = subprocess.run([options.example], check=True, capture_output=True, text=True)
        runs.append(json.loads(out.stdout))
    print(f"history: {runs[0]['history_bytes']} bytes; {options.runs} runs; milliseconds\n")
    print("| what | median | range | limit |\n|---|---|---|---|")
    broken = []
    for name, key, limit in LIMITS:
        values = [float(run[key]) for run in runs]
        median = statistics.median(values)
        shown = "" if limit is None else f"{limit:g}"
        print(f"| {name} | {median:.2f} | {min(values):.2f} to {max(values):.2f} | {shown} |")
        if limit is not None and median > limit:
            broken.append(name.strip())
    for name in broken:
        print(f"over its limit: {name}", file=sys.stderr)
    return 1 if broken and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

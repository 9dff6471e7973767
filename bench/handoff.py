"""What the capsule of a long session costs without a model.

A session of 800 messages of person and model in 1,600 rows, the writer switched off, `hermes handoff build` as a whole process: the
session is read, put together by rule, stored with a full sync and written to its two files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
import bench  # noqa: E402  (the library stands beside, not in a package)

MESSAGES = 800
# Half of the seeded rows are calls of tools and their results, which are no messages of the dialogue.
ROWS = 2 * MESSAGES
LIMIT_MS = 100
FALLBACK = 8


def measured(hermes: str, runs: int, folder: Path) -> list[bench.Sample]:
    program = bench.Program("hermes", [hermes], folder)
    program.prepare()
    (program.home / "config.yaml").write_text(
        "model:\n  default: none\n  provider: rehearsal\n"
        "auxiliary:\n  compression:\n    enabled: false\n",
        encoding="utf-8",
    )
    bench.say(f"a session of {MESSAGES} messages ..")
    seeded = program.run("internal", "seed-session", "--messages", str(ROWS), "--requests", "1")
    session = seeded.stdout.decode().split()[0]
    build = ["handoff", "build", "--session-id", session, "--json"]
    # The exit code says that no model wrote it.
    result = json.loads(program.run(*build, wanted=FALLBACK).stdout)
    if result["status"] != "fallback" or result["messages"] != MESSAGES:
        raise bench.BenchError(f"another capsule than the one that is to be measured: {result}")
    return [program.run(*build, wanted=FALLBACK) for _ in range(runs)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hermes", required=True, help="the binary")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit code 1 if the limit is broken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        folder = Path(name)
        samples = measured(bench.executable(options.hermes), options.runs, folder)
        about = bench.machine(folder)
    times = [sample.wall_ms for sample in samples]
    median = bench.median(times)
    holds = median < LIMIT_MS
    spread = f"{bench.round_figure(min(times))} to {bench.round_figure(max(times))}"
    processor = bench.round_figure(bench.median([sample.cpu_s * 1000 for sample in samples]))
    row = [
        f"`handoff build`, {MESSAGES} messages, no model",
        f"{bench.round_figure(median)} ms",
        spread,
        f"{processor} ms",
        f"{LIMIT_MS} ms",
        "holds" if holds else "broken",
    ]
    head = ["what", "median", "spread", "processor", "limit", "verdict"]
    print(bench.markdown(head, [row]))
    print(f"\n{about}; {options.runs} runs.")
    return 1 if options.check and not holds else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (bench.BenchError, statistics.StatisticsError) as error:
        print(f"handoff: {error}", file=sys.stderr)
        sys.exit(1)

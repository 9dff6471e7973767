"""What it costs to look into a large store, against the limits this project sets itself.

A session of 10,000 rows for `context --json`, 100 sessions of 1,000 requests for `trace`, 300 skills
for the start of a session. Whole processes, in homes that exist already.
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

ROWS = 10_000
SESSIONS = 100
REQUESTS = 1_000
SKILLS = 300

Row = tuple[str, float, list[float]]


def seeded(program: bench.Program, *arguments: str) -> list[str]:
    sample = program.run("internal", "seed-session", *arguments)
    return sample.stdout.decode().split()


def looked_at(hermes: str, runs: int, folder: Path) -> list[Row]:
    rows: list[Row] = []
    program = bench.Program("hermes", [hermes], folder / "rows")
    program.prepare()
    bench.say(f"a session of {ROWS:,} rows ..")
    session = seeded(program, "--messages", str(ROWS), "--requests", "1")[0]
    report = json.loads(program.run("context", session, "--json").stdout)
    if not report["verified"] or len(report["parts"]) < ROWS:
        raise bench.BenchError("the report does not describe the whole request")
    times = [program.run("context", session, "--json").wall_ms for _ in range(runs)]
    rows.append((f"`context --json`, {ROWS:,} rows", 50, times))

    program = bench.Program("hermes", [hermes], folder / "requests")
    program.prepare()
    bench.say(f"{SESSIONS * REQUESTS:,} requests in {SESSIONS} sessions ..")
    seeded(
        program,
        "--messages", str(2 * REQUESTS),
        "--requests", str(REQUESTS),
        "--sessions", str(SESSIONS),
    )
    for name, text, places in [
        ("a rare text", "needle-50 ", 1),
        ("a text in every session", "needle-", SESSIONS),
        ("a text that is nowhere", "no such text", 0),
        ("a text of every prompt", "seeded session", SESSIONS),
    ]:
        found = json.loads(program.run("trace", text, "--json").stdout)
        if len(found["rows"]) + len(found["snapshots"]) != places:
            raise bench.BenchError(f"trace of {name} found {found}")
        if places and not all(
            place["carried"]["requests"] for place in found["rows"] + found["snapshots"]
        ):
            raise bench.BenchError(f"trace of {name} names no requests")
        times = [program.run("trace", text, "--json").wall_ms for _ in range(runs)]
        rows.append((f"`trace`, {SESSIONS * REQUESTS:,} requests: {name}", 1_000, times))

    program = bench.Program("hermes", [hermes], folder / "skills")
    program.prepare()
    for number in range(SKILLS):
        place = program.home / "skills" / f"category-{number % 12}" / f"skill-{number}"
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(
            f"---\nname: skill-{number}\ndescription: Does thing {number}.\n---\nBody.\n"
        )
    program.run("skills", "list", "--json")
    times = [program.run("skills", "list", "--json").wall_ms for _ in range(runs)]
    rows.append((f"`skills list`, {SKILLS} skills, warm", 50, times))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hermes", required=True, help="the binary")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a limit is broken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        folder = Path(name)
        measured = looked_at(bench.executable(options.hermes), options.runs, folder)
        about = bench.machine(folder)
    table = []
    broken = []
    for what, under, values in measured:
        median = bench.median(values)
        holds = median < under
        if not holds:
            broken.append(what)
        spread = f"{bench.round_figure(min(values))} to {bench.round_figure(max(values))}"
        verdict = "holds" if holds else "broken"
        table.append([what, f"{bench.round_figure(median)} ms", spread, f"{under:,.0f} ms", verdict])
    print(bench.markdown(["what", "median", "spread", "limit", "verdict"], table))
    print(f"\n{about}; {options.runs} runs each.")
    if broken:
        bench.say(f"context: over the limit: {', '.join(broken)}")
    return 1 if broken and options.check else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (bench.BenchError, statistics.StatisticsError) as error:
        print(f"context: {error}", file=sys.stderr)
        sys.exit(1)

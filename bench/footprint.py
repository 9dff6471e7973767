"""What a turn of hermes costs, against the limits this project sets itself.

Alone, against its own rehearsal server, which answers at once; in a home that exists already.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
import bench  # noqa: E402  (the library stands beside, not in a package)

# Above this a commit's price is the disk's, and the limits on a turn say nothing about hermes.
SLOW_SYNC_MS = 1.0
FILE = "notes.txt"


@dataclass(frozen=True)
class Limit:
    """A figure and what it must stay under."""

    name: str
    unit: str
    under: float
    values: list[float]
    needs_fast_sync: bool = False

    @property
    def median(self) -> float:
        return bench.median(self.values)

    @property
    def holds(self) -> bool:
        return self.median < self.under


def measure(hermes: str, runs: int, folder: Path) -> list[Limit]:
    program = bench.Program("hermes", [hermes], folder / "ours")
    with bench.rehearsal(hermes, folder / "server") as server:
        recorder = bench.Recorder(server)
        direct = f"http://{server[0]}:{server[1]}/v1"
        program.configure(direct, "rehearsal")
        program.run("--version")
        version = [program.run("--version") for _ in range(runs)]
        program.run("-z", "hello")
        turns = [program.run("-z", "hello") for _ in range(runs)]
        program.configure(recorder.base_url, "rehearsal")
        first, tools = [], []
        for _ in range(runs):
            recorder.take()
            sample = program.run("-z", "hello")
            asked = [request for request in recorder.take() if request.asks_a_model]
            if not asked:
                raise bench.BenchError("a one-shot turn asked no model")
            first.append((asked[0].at_ns - sample.began_ns) / 1e6)
            definitions = json.loads(asked[0].body).get("tools") or []
            whole = json.dumps(definitions, ensure_ascii=False, separators=(",", ":"))
            tools.append(float(len(whole.encode())))
        program.configure(direct, "rehearsal")
        bench.say("a session of 800 messages ..")
        session = bench.read_turns(program, FILE, 200)
        arguments = ("sessions", "export", "--session-id", session, "--format", "jsonl", "-")
        program.run(*arguments)
        export = [program.run(*arguments).wall_ms for _ in range(runs)]
        recorder.close()
    binary = Path(hermes).stat().st_size / 1e6
    return [
        Limit("`--version`: start to exit", "ms", 10, [each.wall_ms for each in version]),
        Limit("one-shot turn: start to first request", "ms", 12, first, needs_fast_sync=True),
        Limit(
            "one-shot turn: start to exit",
            "ms",
            25,
            [each.wall_ms for each in turns],
            needs_fast_sync=True,
        ),
        Limit("one-shot turn: peak memory", "MB", 18, [each.peak_kib * 1.024e-3 for each in turns]),
        Limit("tool definitions of a first request", "bytes", 12_000, tools),
        Limit("export of 800 messages: whole process", "ms", 40, export),
        Limit("binary", "MB", 25, [binary]),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hermes", required=True, help="the binary")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a limit is broken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        folder = Path(name)
        limits = measure(bench.executable(options.hermes), options.runs, folder)
        sync = bench.sync_ms(folder)
        about = bench.machine(folder)
    broken = []
    rows = []
    for limit in limits:
        verdict = "holds" if limit.holds else "broken"
        if not limit.holds and limit.needs_fast_sync and sync > SLOW_SYNC_MS:
            verdict = "not judged: the disk is slow"
        elif not limit.holds:
            broken.append(limit.name)
        low, high = min(limit.values), max(limit.values)
        figure = f"{bench.round_figure(limit.median)} {limit.unit}"
        spread = f"{bench.round_figure(low)} to {bench.round_figure(high)}"
        rows.append([limit.name, figure, spread, f"{limit.under:,.0f} {limit.unit}", verdict])
    print(bench.markdown(["what", "median", "spread", "limit", "verdict"], rows))
    print(f"\n{about}; {options.runs} runs each.")
    if broken:
        bench.say(f"footprint: over the limit: {', '.join(broken)}")
    return 1 if broken and options.check else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (bench.BenchError, statistics.StatisticsError) as error:
        print(f"footprint: {error}", file=sys.stderr)
        sys.exit(1)

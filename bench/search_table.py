"""Runs store_bench and the original on the same messages and prints what is wanted beside what is.

Run by search.sh. `--rows` shrinks everything for a trial; the limits are meant for the full size.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

import bench  # noqa: E402  (the folder of the shared part is not on the path before)

HERE = Path(__file__).resolve().parent
#: Rows that are written one by one; the original takes about a millisecond for each.
SOME = 20_000
QUICK = ["rare", "1 %", "20 %", "two words", "phrase"]
SEEDS = [1, 2, 3, 4, 5]


class Row:
    """One line of the table."""

    def __init__(self, what: str, found: str, wanted: str, holds: bool) -> None:
        self.cells = [what, found, wanted, "holds" if holds else "short"]
        self.holds = holds
        self.what = what
        bench.say(" | ".join(self.cells))


class Runner:
    """The two programs and the folder they work in."""

    def __init__(self, store_bench: str, original: str, folder: Path) -> None:
        self.store_bench = store_bench
        self.original = original
        self.folder = folder
        self.environment = {**os.environ, "HERMES_HOME": str(folder / "home")}
        (folder / "home").mkdir()

    def hermes(self, *arguments: str, reads: Path | None = None, writes: Path | None = None) -> str:
        return self._run([self.store_bench, *arguments], reads, writes)

    def python(self, *arguments: str) -> str:
        return self._run([self.original, str(HERE / "search.py"), *arguments], None, None)

    def _run(self, command: list[str], reads: Path | None, writes: Path | None) -> str:
        bench.say(f"running: {' '.join(Path(part).name for part in command)}")
        with (
            open(reads or os.devnull, "rb") as stdin,
            open(writes or self.folder / "out", "w+b") as stdout,
        ):
            done = subprocess.run(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=self.environment,
                check=False,
            )
            if done.returncode != 0:
                raise bench.BenchError(f"{command[:2]} failed: {bench.text(done.stderr)}")
            if writes:
                return ""
            stdout.seek(0)
            return stdout.read().decode()


def lines(output: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def p95(output: str) -> dict[str, float]:
    return {str(line["kind"]): line["p95"] for line in lines(output)}


def inserted(run: Runner, messages: Path, rounds: int) -> list[Row]:
    """Rows a second of both, in turn, so that a slow minute meets both."""
    rates: dict[str, list[float]] = {"original": [], "1": [], "8": []}
    for number in range(rounds):
        place = str(run.folder / f"insert-{number}")
        report = lines(run.python("fill", f"{place}-original", str(messages)))[0]
        rates["original"].append(report["rows_per_s"])
        for batch in ("1", "8"):
            report = lines(run.hermes("fill", f"{place}-{batch}", batch, reads=messages))[0]
            rates[batch].append(report["rows_per_s"])
    theirs = bench.median(rates["original"])
    rows = []
    for batch, wanted, what in (
        ("1", 2.0, "insert, one row a transaction"),
        ("8", 5.0, "insert, a turn of 8 rows in one transaction"),
    ):
        ours = bench.median(rates[batch])
        found = f"{ours:,.0f}/s beside {theirs:,.0f}/s: {ours / theirs:.1f} times"
        rows.append(Row(what, found, f"{wanted:.0f} times", ours >= wanted * theirs))
    return rows


def compared(run: Runner, messages: Path, questions: Path, runs: int) -> list[Row]:
    """Size of the whole set in both, and the time of every kind of question."""
    ours = lines(run.hermes("fill", str(run.folder / "hermes"), "8", reads=messages))[0]
    theirs = lines(run.python("fill", str(run.folder / "original"), str(messages)))[0]
    share = ours["bytes"] / theirs["bytes"]
    found = f"{ours['bytes'] / 2**20:.0f} of {theirs['bytes'] / 2**20:.0f} MiB: {share:.0%}"
    rows = [Row(f"size, {ours['rows']:,.0f} rows", found, "at most 60%", share <= 0.6)]
    asked: dict[str, dict[str, list[float]]] = {"ours": {}, "theirs": {}}
    for _ in range(2):
        for name, output in (
            ("theirs", run.python("ask", str(run.folder / "original"), str(questions), str(runs))),
            ("ours", run.hermes("ask", str(run.folder / "hermes"), str(questions), str(runs))),
        ):
            for kind, value in p95(output).items():
                asked[name].setdefault(kind, []).append(value)
    for kind in QUICK:
        mine, other = (bench.median(asked[name][kind]) for name in ("ours", "theirs"))
        found = f"{mine:.2f} beside {other:.2f} ms: {other / mine:.1f} times"
        rows.append(Row(f"search, p95, {kind}", found, "5 times", other >= 5 * mine))
    return rows


def large(run: Runner, rows: int, questions: Path, runs: int) -> list[Row]:
    """The large store: how inserts fare as it grows, how long a search takes, what is found."""
    folder = str(run.folder / "large")
    report = lines(run.hermes("grow", folder, str(rows)))
    medians = [line["median_ms"] for line in report if "median_ms" in line]
    worst = max(medians) / medians[0] - 1
    found = f"{medians[0]:.3f} ms empty, {', '.join(f'{m:.3f}' for m in medians[1:])}: {worst:+.0%}"
    table = [Row(f"insert, median as the store grows to {rows:,}", found, "within 20%", worst <= 0.2)]
    output = run.hermes("ask", folder, str(questions), str(runs))
    slowest = max(p95(output).items(), key=lambda item: item[1])
    found = f"{slowest[1]:.1f} ms ({slowest[0]})"
    table.append(Row(f"search, p95, {rows:,} rows", found, "under 50 ms", slowest[1] < 50))
    rare = next(line for line in lines(output) if line["kind"] == "rare")
    share = rare["found"]
    table.append(Row("old planted facts found there", f"{share:.0%}", "100%", share == 1))
    return table


def questions_in_other_words(run: Runner, conversations: int) -> list[Row]:
    """The share of questions that find their session and show the decisive turn."""
    pattern = re.compile(
        r"^(?:(\w+), )?seed \d+:.*?10: [\d.]+ %, [\d.]+ %, ([\d.]+) %.*?answer: ([\d.]+) %",
        re.DOTALL | re.MULTILINE,
    )
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in SEEDS:
        for match in pattern.finditer(run.hermes("eval", str(seed), str(conversations))):
            shares = (float(match[2]), float(match[3]))
            found.setdefault(match[1] or "talk", []).append(shares)
    if not found:
        raise bench.BenchError("store_bench eval printed nothing that was understood")
    rows = []
    for name, shares in found.items():
        for at, what, wanted in (
            (0, "right session in the first five", 91),
            (1, "decisive turn in the default answer", 85),
        ):
            values = [share[at] for share in shares]
            shown = f"{min(values):.1f} to {max(values):.1f} %"
            rows.append(
                Row(f"{what} ({name}, seeds 1 to 5)", shown, f"{wanted} %", min(values) >= wanted)
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store-bench", required=True, help="the built example")
    parser.add_argument("--original", required=True, help="Python with the original installed")
    parser.add_argument("--rows", type=int, default=200_000, help="rows that both programs hold")
    parser.add_argument("--large", type=int, default=1_000_000, help="rows of the large store")
    parser.add_argument("--runs", type=int, default=10, help="how often a question is asked")
    parser.add_argument("--rounds", type=int, default=3, help="how often inserting is measured")
    parser.add_argument("--part", action="append", help="insert, compare, large or questions")
    parser.add_argument("--work", help="a folder on the disk to be measured")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a limit is missed")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="hermes-bench-", dir=options.work) as name:
        folder = Path(name)
        run = Runner(bench.executable(options.store_bench), options.original, folder)
        about = bench.machine(folder)
        messages, some = folder / "messages.jsonl", folder / "some.jsonl"
        questions = folder / "questions.json"
        run.hermes("generate", str(options.rows), str(options.rows // 100), writes=messages)
        run.hermes("questions", writes=questions)
        with messages.open("rb") as all_rows, some.open("wb") as out:
            out.writelines(line for _, line in zip(range(SOME), all_rows, strict=False))
        parts: dict[str, Callable[[], list[Row]]] = {
            "insert": lambda: inserted(run, some, options.rounds),
            "compare": lambda: compared(run, messages, questions, options.runs),
            "large": lambda: large(run, options.large, questions, options.runs),
            "questions": lambda: questions_in_other_words(run, 10),
        }
        for part in options.part or parts:
            rows += parts[part]()
        about += f"; at the end {bench.sync_ms(folder):.2f} ms"
    print(bench.markdown(["what", "found", "wanted", "verdict"], [row.cells for row in rows]))
    print(f"\n{about}.")
    short = [row.what for row in rows if not row.holds]
    if short:
        bench.say(f"search: short of what is wanted: {'; '.join(short)}")
    return 1 if short and options.check else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except bench.BenchError as error:
        print(f"search: {error}", file=sys.stderr)
        sys.exit(1)

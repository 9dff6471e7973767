"""Measures hermes beside Hermes Agent: the same endpoint, the same questions, one machine, one run.

Runs of the two alternate, so that a machine that slows down slows both. Prints a Markdown table of
medians and ratios; `--json FILE` keeps every sample.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))
import bench  # noqa: E402  (the library stands beside, not in a package)

MODEL = "rehearsal"
ORIGINAL = "Hermes Agent"
OURS = "hermes"
# Each turn that reads a file stores four messages: question, call, result, answer.
EXPORT_TURNS = 200
EXPORT_FILE = "notes.txt"
README_BEGIN = "<!-- figures:compare -->"
README_END = "<!-- end:figures:compare -->"


@dataclass(frozen=True)
class Metric:
    """A row of the table."""

    name: str
    unit: str
    samples: dict[str, list[float]]


class Comparison:
    """All measurements of both programs against one server."""

    def __init__(self, programs: list[bench.Program], server: tuple[str, int], runs: int) -> None:
        self.programs = programs
        self.server = server
        self.runs = runs
        self.metrics: list[Metric] = []

    @property
    def direct(self) -> str:
        return f"http://{self.server[0]}:{self.server[1]}/v1"

    def add(self, name: str, unit: str) -> dict[str, list[float]]:
        samples: dict[str, list[float]] = {program.name: [] for program in self.programs}
        self.metrics.append(Metric(name, unit, samples))
        return samples

    def configure(self, base_url: str) -> None:
        for program in self.programs:
            program.configure(base_url, MODEL)

    def alternating(self, runs: int, *arguments: str) -> list[tuple[bench.Program, bench.Sample]]:
        """One run of each to warm up, then `runs` of each in turn."""
        for program in self.programs:
            program.run(*arguments)
        return [
            (program, program.run(*arguments)) for _ in range(runs) for program in self.programs
        ]

    def version(self) -> None:
        bench.say("--version ..")
        wall = self.add("`--version`: start to exit", "ms")
        peak = self.add("`--version`: peak memory", "MiB")
        for program, sample in self.alternating(self.runs, "--version"):
            wall[program.name].append(sample.wall_ms)
            peak[program.name].append(sample.peak_mib)

    def one_shot(self) -> None:
        bench.say("one-shot turns ..")
        self.configure(self.direct)
        wall = self.add("one-shot turn: start to exit", "ms")
        peak = self.add("one-shot turn: peak memory", "MiB")
        for program, sample in self.alternating(self.runs, "-z", "hello"):
            wall[program.name].append(sample.wall_ms)
            peak[program.name].append(sample.peak_mib)

    def requests(self) -> None:
        bench.say("what a turn sends ..")
        recorder = bench.Recorder(self.server)
        self.configure(recorder.base_url)
        first = self.add("one-shot turn: start to first model request", "ms")
        count = self.add("HTTP requests of one turn", "")
        body = self.add("first request: body", "bytes")
        prompt = self.add("first request: system prompt", "bytes")
        tools = self.add("first request: tool definitions", "bytes")
        number = self.add("first request: tools", "")
        for program in self.programs:
            program.run("-z", "hello")
        for _ in range(self.runs):
            for program in self.programs:
                recorder.take()
                sample = program.run("-z", "hello")
                seen = recorder.take()
                asked = [request for request in seen if request.asks_a_model]
                if not asked:
                    raise bench.BenchError(f"{program.name} asked no model in a one-shot turn")
                name = program.name
                parts = measured_parts(asked[0].body)
                first[name].append((asked[0].at_ns - sample.began_ns) / 1e6)
                count[name].append(len(seen))
                body[name].append(len(asked[0].body))
                prompt[name].append(parts["prompt"])
                tools[name].append(parts["tools"])
                number[name].append(parts["number"])
        recorder.close()

    def export(self) -> None:
        bench.say("a session of 800 messages ..")
        self.configure(self.direct)
        ours = next((program for program in self.programs if program.name == OURS), None)
        original = next((program for program in self.programs if program.name == ORIGINAL), None)
        session: dict[str, str] = {}
        messages = synthetic_messages()
        if ours is not None:
            session[OURS], messages = seed_ours(ours)
        if original is not None:
            session[ORIGINAL] = seed_original(original, messages)
        for program in self.programs:
            arguments = ("sessions", "export", "--session-id", session[program.name])
            exported = json.loads(program.run(*arguments, "--format", "jsonl", "-").stdout)
            if len(exported["messages"]) != len(messages):
                found = len(exported["messages"])
                wanted = len(messages)
                raise bench.BenchError(f"{program.name} exported {found} of {wanted} messages")
        wall = self.add(f"export of {len(messages)} messages: whole process", "ms")
        again = self.add(f"resume of {len(messages)} messages and one turn", "ms")
        for _ in range(self.runs):
            for program in self.programs:
                arguments = ("sessions", "export", "--session-id", session[program.name])
                sample = program.run(*arguments, "--format", "jsonl", "-")
                wall[program.name].append(sample.wall_ms)
        for _ in range(max(3, self.runs // 3)):
            for program in self.programs:
                sample = program.run("chat", "-q", "hello", "--resume", session[program.name])
                again[program.name].append(sample.wall_ms)

    def table(self) -> str:
        names = [program.name for program in self.programs]
        both = set(names) == {OURS, ORIGINAL}
        rows = []
        for metric in self.metrics:
            medians = {name: bench.median(values) for name, values in metric.samples.items()}
            row = [metric.name]
            row += [f"{bench.round_figure(medians[name])} {metric.unit}".strip() for name in names]
            if both:
                row.append(ratio(medians[ORIGINAL], medians[OURS]))
            rows.append(row)
        header = ["median of each", *names] + (["ratio"] if both else [])
        return bench.markdown(header, rows)


def ratio(original: float, ours: float) -> str:
    return f"{bench.round_figure(original / ours)}x" if ours > 0 else "-"


def measured_parts(body: bytes) -> dict[str, float]:
    """Sizes of the parts of a chat-completions request, in bytes of UTF-8."""
    request = json.loads(body)
    prompt = sum(
        len(message["content"].encode())
        for message in request["messages"]
        if message["role"] == "system" and isinstance(message["content"], str)
    )
    tools = request.get("tools") or []
    text = json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
    return {"prompt": prompt, "tools": len(text.encode()) if tools else 0, "number": len(tools)}


def seed_ours(program: bench.Program) -> tuple[str, list[dict[str, object]]]:
    """A session made by really running its turns; each reads a file. Returns its messages too."""
    session = bench.read_turns(program, EXPORT_FILE, EXPORT_TURNS)
    arguments = ("sessions", "export", "--session-id", session, "--format", "jsonl", "-")
    return session, json.loads(program.run(*arguments).stdout)["messages"]


def synthetic_messages() -> list[dict[str, object]]:
    """The same shape, for a run without hermes."""
    call = {"id": "c", "type": "function"}
    call["function"] = {"name": "read_file", "arguments": json.dumps({"path": EXPORT_FILE})}
    turn: list[dict[str, object]] = [
        {"role": "user", "content": f"read {EXPORT_FILE}"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "A line of notes.\n" * 16, "tool_call_id": "c"},
        {"role": "assistant", "content": "Read."},
    ]
    return turn * EXPORT_TURNS


SEED_ORIGINAL = """
import json, sys
from pathlib import Path
from hermes_state import SessionDB
db = SessionDB(db_path=Path(sys.argv[1]))
db.create_session("20260101_000000_bench0", "cli", model=sys.argv[3])
for message in json.load(open(sys.argv[2], encoding="utf-8")):
    db.append_message(
        "20260101_000000_bench0", message["role"], message.get("content"),
        tool_name=message.get("tool_name"), tool_calls=message.get("tool_calls"),
        tool_call_id=message.get("tool_call_id"),
    )
"""


def seed_original(program: bench.Program, messages: list[dict[str, object]]) -> str:
    """The same messages, put into the original's store by its own code."""
    given = program.folder / "messages.json"
    given.write_text(json.dumps(messages), encoding="utf-8")
    python = Path(program.command[0]).with_name("python")
    store = program.home / "state.db"
    bench.Program("seeding Hermes Agent", [str(python)], program.folder).run(
        "-c", SEED_ORIGINAL, str(store), str(given), MODEL
    )
    return "20260101_000000_bench0"


def write_readme(text: str) -> None:
    """Puts the figures between their marks in README.md."""
    path = bench.REPOSITORY / "README.md"
    readme = path.read_text(encoding="utf-8")
    before, mark, rest = readme.partition(README_BEGIN)
    _, end, after = rest.partition(README_END)
    if not mark or not end:
        raise bench.BenchError(f"README.md holds no {README_BEGIN} .. {README_END}")
    path.write_text(f"{before}{mark}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hermes", help="our binary; without it only the original is measured")
    parser.add_argument("--original", help="Hermes Agent's command inside its environment")
    parser.add_argument("--server", help="HOST:PORT of a model server to use instead of our own")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path, help="where to keep every sample")
    parser.add_argument("--write-readme", action="store_true", help="put the table into README.md")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if not options.hermes and not options.server:
        raise bench.BenchError("without --hermes there is no server\n  hint: give --server")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hermes-bench-")))
        named = [(ORIGINAL, options.original), (OURS, options.hermes)]
        programs = [
            bench.Program(name, [bench.executable(command)], folder / name.replace(" ", "-"))
            for name, command in named
            if command
        ]
        if options.server:
            host, port = options.server.rsplit(":", 1)
            server = (host, int(port))
        else:
            hermes = programs[-1].command[0]
            server = stack.enter_context(bench.rehearsal(hermes, folder / "server"))
        comparison = Comparison(programs, server, options.runs)
        comparison.configure(comparison.direct)
        versions = [first_line(program.run("--version").stdout) for program in programs]
        comparison.version()
        comparison.one_shot()
        comparison.requests()
        comparison.export()
        about = (
            f"{' beside '.join(versions)}; {bench.machine(folder)}; "
            f"{options.runs} runs each, in turn."
        )
        result = f"{comparison.table()}\n\n{about}"
    print(result)
    if options.json:
        samples = {metric.name: metric.samples for metric in comparison.metrics}
        options.json.write_text(json.dumps(samples, indent=1), encoding="utf-8")
    if options.write_readme:
        write_readme(result)
    return 0


def first_line(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip().splitlines()[0]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (bench.BenchError, statistics.StatisticsError) as error:
        print(f"compare: {error}", file=sys.stderr)
        sys.exit(1)

"""What the measurements share: running a program, recording its requests, medians and tables.

Only the standard library. Nothing here knows a figure that is wanted; the scripts do.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LIB = Path(__file__).resolve().parent
REPOSITORY = LIB.parent.parent


class BenchError(Exception):
    """A measurement that cannot be made, with the reason for a person."""


@dataclass(frozen=True)
class Sample:
    """One run of a program."""

    began_ns: int
    ended_ns: int
    peak_kib: int
    cpu_s: float
    stdout: bytes

    @property
    def wall_ms(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e6

    @property
    def peak_mib(self) -> float:
        return self.peak_kib / 1024


@dataclass(frozen=True)
class Program:
    """A program under measurement with a home that nobody else uses."""

    name: str
    command: list[str]
    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home" / ".hermes"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def prepare(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.work.mkdir(parents=True, exist_ok=True)

    def configure(self, base_url: str, model: str) -> None:
        """The same endpoint for every program, in the form that both read."""
        self.prepare()
        (self.home / "config.yaml").write_text(
            "model:\n"
            f"  default: {model}\n"
            "  provider: custom\n"
            f"  base_url: {base_url}\n"
            "  api_key: not-a-key\n"
            "  context_length: 200000\n",
            encoding="utf-8",
        )

    def environment(self) -> dict[str, str]:
        """A bare environment, so that the person's own settings do not take part."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "HERMES_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }

    def run(self, *arguments: str, wanted: int = 0) -> Sample:
        """One run; another exit code than `wanted` is an error that shows what the program said."""
        result = self.folder / "measured.json"
        result.unlink(missing_ok=True)
        done = subprocess.run(
            [str(measure()), str(result), *self.command, *arguments],
            cwd=self.work,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if not result.exists():
            raise BenchError(f"{self.name} could not be measured: {text(done.stderr)}")
        measured = json.loads(result.read_text(encoding="utf-8"))
        code = measured.pop("code")
        if code != wanted:
            said = text(done.stderr) or text(done.stdout)
            raise BenchError(f"{self.name} {' '.join(arguments)} ended with {code}: {said}")
        return Sample(**measured, stdout=done.stdout)


def executable(path: str) -> str:
    """The absolute path of a program that is there."""
    absolute = Path(path).absolute()
    if not os.access(absolute, os.X_OK):
        raise BenchError(f"there is no program {absolute}\n  hint: cargo build --release")
    return str(absolute)


def text(output: bytes) -> str:
    """The last lines of an output."""
    return "\n".join(output.decode("utf-8", "replace").strip().splitlines()[-12:])


_measure: Path | None = None


def measure() -> Path:
    """The little runner in C, compiled on first use."""
    global _measure
    if _measure is None:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise BenchError("there is no C compiler\n  hint: install gcc or clang")
        out = cache() / "measure"
        subprocess.run([compiler, "-O2", "-o", str(out), str(LIB / "measure.c")], check=True)
        _measure = out
    return _measure


def cache() -> Path:
    """Where downloads and helpers stay between runs."""
    base = os.environ.get("HERMES_BENCH_CACHE")
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hermes-bench"
    folder = Path(base) if base else default
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# Recording what is sent


@dataclass(frozen=True)
class Request:
    """One HTTP request as it came in."""

    at_ns: int
    line: str
    body: bytes

    @property
    def asks_a_model(self) -> bool:
        return self.line.startswith("POST ") and "/chat/completions" in self.line


@dataclass
class Recorder:
    """A TCP proxy on the loopback that notes each request with the time of its first byte.

    It stands between a program and the model server in runs that are made for what it sees; the
    runs that are timed as a whole talk to the server directly.
    """

    upstream: tuple[str, int]
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def take(self) -> list[Request]:
        """What came since the last time."""
        with self._lock:
            taken, self.requests = self.requests, []
        return taken

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(self.upstream)
            except OSError:
                return
            with server:
                for side in (client, server):
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=_copy, args=(server, client), daemon=True).start()
                try:
                    self._requests(client, server)
                except OSError:
                    return

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        pending = b""
        while True:
            at_ns = time.monotonic_ns() if pending else 0
            while b"\r\n\r\n" not in pending:
                data = client.recv(65536)
                at_ns = at_ns or time.monotonic_ns()
                if not data:
                    return
                server.sendall(data)
                pending += data
            head, pending = pending.split(b"\r\n\r\n", 1)
            lines = head.decode("latin-1").split("\r\n")
            fields = dict(line.lower().split(":", 1) for line in lines[1:] if ":" in line)
            if "chunked" in fields.get("transfer-encoding", ""):
                complete: Callable[[bytes], bool] = lambda body: body.endswith(b"0\r\n\r\n")
            else:
                length = int(fields.get("content-length", "0"))
                complete = lambda body, length=length: len(body) >= length
            while not complete(pending):
                data = client.recv(65536)
                if not data:
                    return
                server.sendall(data)
                pending += data
            if "chunked" in fields.get("transfer-encoding", ""):
                body, pending = unchunked(pending), b""
            else:
                body, pending = pending[:length], pending[length:]
            with self._lock:
                self.requests.append(Request(at_ns, lines[0], body))


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def unchunked(body: bytes) -> bytes:
    """The body inside a chunked one."""
    whole = b""
    while body:
        size, body = body.split(b"\r\n", 1)
        length = int(size.split(b";")[0], 16)
        if length == 0:
            break
        whole, body = whole + body[:length], body[length + 2 :]
    return whole


# The model server


@contextmanager
def rehearsal(hermes: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Our rehearsal provider as a server of its own; it answers at once."""
    server = Program("rehearse", [hermes], folder)
    server.prepare()
    port = free_port()
    with (folder / "rehearse.log").open("wb") as log:
        process = subprocess.Popen(
            [hermes, "rehearse", "serve", "--port", str(port)],
            cwd=server.work,
            env=server.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(port, process)
            yield ("127.0.0.1", port)
        except BenchError as error:
            said = text((folder / "rehearse.log").read_bytes())
            raise BenchError(f"{error}\n{said}") from error
        finally:
            process.terminate()
            process.wait(10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until something listens; the bound is five seconds."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if process.poll() is not None:
            raise BenchError(f"the rehearsal server ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.02)
    raise BenchError("the rehearsal server does not listen after 5 s")


def read_turns(program: Program, file: str, turns: int) -> str:
    """A session of our own whose every turn reads a file; four messages each. Returns its id."""
    (program.work / file).write_text("A line of notes that is read again.\n" * 16)
    first = program.run("chat", "-q", f"read {file}", "--json")
    session: str = json.loads(first.stdout)["session_id"]
    for _ in range(turns - 1):
        program.run("chat", "-q", f"read {file}", "--resume", session)
    return session


# The machine and the table


def sync_ms(folder: Path, times: int = 50) -> float:
    """Median time of a small write with fsync in this folder: what one commit costs at least."""
    path = folder / "sync-probe"
    taken = []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            began = time.perf_counter_ns()
            os.fsync(file.fileno())
            taken.append((time.perf_counter_ns() - began) / 1e6)
    path.unlink()
    return statistics.median(taken)


def machine(folder: Path) -> str:
    """One line about where the figures come from."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, a file sync takes {sync_ms(folder):.2f} ms"
    )


def median(values: list[float]) -> float:
    return statistics.median(values)


def round_figure(value: float) -> str:
    """Three figures are more than a median deserves."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def say(message: str) -> None:
    """Progress, beside the result on standard output."""
    print(message, file=sys.stderr, flush=True)

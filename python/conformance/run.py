#!/usr/bin/env python3
"""Runs the conformance plugins through the built program, as a person would, and holds the results.

    python3 python/conformance/run.py --hermes target/debug/hermes [CHECK ...]

Every check has a home folder of its own. A hook that the program lists as fired must be heard by a
plugin in one of the scenes here, with the fields that it is known for; a member of the context object
must register, answer, or raise as it does in the original. Nothing outside of the temporary folder is
touched and no network but the loopback is used.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Longer than anything takes on a busy machine.
PATIENCE = 60.0
# What the rehearsal provider says at the end of each answer to a person, and the next prompt.
ANSWERED = r"run `hermes setup`.*\n> "
# Terminals ask where the cursor is and wait for the answer.
WHERE = b"\x1b[6n"

# What hooks are known for, beside the fields that all have.
TOOL = {"tool_name", "args", "task_id", "session_id", "tool_call_id", "turn_id", "api_request_id"}
TURN = {"session_id", "task_id", "turn_id", "model", "platform"}
REQUEST = {"task_id", "turn_id", "api_request_id", "session_id", "model", "provider", "base_url"}
SIDE = {"aux_task", "session_id", "api_request_id", "model", "provider", "message_count"}
STREAM = {"turn_id", "iteration", "session_id", "model", "provider", "surface"}
ASKED = {"command", "description", "pattern_key", "session_key", "surface"}
INPUT = {"kind", "request_id", "session_id", "platform", "prompt"}
FIELDS: dict[str, set[str]] = {
    "pre_tool_call": TOOL,
    "post_tool_call": TOOL | {"result", "duration_ms", "status", "error_type", "error_message"},
    "transform_tool_result": TOOL | {"result"},
    "transform_terminal_output": {"command", "output", "returncode", "task_id", "env_type"},
    "pre_llm_call": TURN
    | {"user_message", "conversation_history", "is_first_turn", "parent_session_id", "sender_id"},
    "post_llm_call": TURN | {"user_message", "assistant_response", "conversation_history"},
    "transform_llm_output": {"response_text", "session_id", "model", "platform", "turn_id"},
    "pre_verify": {"session_id", "attempt", "final_response", "changed_paths"},
    "pre_api_request": REQUEST | {"api_call_count", "retry_count", "request_messages"},
    "post_api_request": REQUEST | {"api_duration", "finish_reason", "usage", "assistant_message"},
    "api_request_error": REQUEST | {"status_code", "retry_count", "retryable", "reason", "error"},
    "pre_auxiliary_call": SIDE | {"request_messages"},
    "post_auxiliary_call": SIDE | {"api_duration", "finish_reason", "error"},
    "transform_api_error_classification": {"provider", "model", "status_code", "error_message"},
    "on_stream_start": STREAM,
    "on_stream_delta": STREAM | {"delta", "kind"},
    "on_stream_end": STREAM | {"final_text", "finished", "error"},
    "on_interim_message": STREAM | {"text", "already_streamed"},
    "on_session_start": {"session_id", "model", "platform"},
    "on_session_end": TURN | {"completed", "failed", "interrupted", "turn_exit_reason"},
    "on_session_finalize": {"session_id", "platform", "reason"},
    "on_session_reset": {"session_id", "platform", "reason"},
    "subagent_start": {"parent_session_id", "child_session_id", "child_role", "child_goal"},
    "subagent_stop": {"parent_session_id", "child_session_id", "child_status", "duration_ms"},
    "on_skill_lifecycle": {"action", "skill_name", "session_id"},
    "pre_approval_request": ASKED,
    "post_approval_response": ASKED | {"choice"},
    "on_human_input_request": INPUT,
    "on_human_input_resolved": INPUT | {"outcome"},
    "pre_command": {"surface", "command", "alias_used", "args_raw", "session_key", "platform"},
    "post_compaction": {
        "session_id",
        "old_session_id",
        "kind",
        "reason",
        "before_tokens",
        "after_tokens",
        "messages_removed",
    },
    "on_session_delete": {"session_id", "reason", "profile", "deleted_ids", "sessions_dir"},
}


def held(condition: object, what: str) -> None:
    """Something must hold; `assert` would be gone under -O."""
    if not condition:
        raise AssertionError(what)


class Home:
    """A home and a working folder, and the program run in them."""

    def __init__(self, folder: Path, hermes: Path) -> None:
        self.root, self.work, self.hermes = folder / "home", folder / "work", hermes
        self.root.mkdir()
        self.work.mkdir()

    def env(self) -> dict[str, str]:
        """What the program sees of this machine."""
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return {
            "PATH": path,
            "HOME": str(self.root.parent),
            "HERMES_HOME": str(self.root),
            "TZ": "UTC",
            "TERM": "xterm-256color",
        }

    def run(self, *args: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Runs the program to its end."""
        done = subprocess.run(
            [str(self.hermes), *args],
            cwd=self.work,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if code is not None:
            said = f"{' '.join(args)}: code {done.returncode}\n{done.stdout}\n{done.stderr}"
            held(done.returncode == code, said)
        return done

    def json(self, *args: str) -> Any:
        """The same, its output read as JSON."""
        return json.loads(self.run(*args).stdout)

    def config(self, text: str) -> None:
        """Writes the settings."""
        (self.root / "config.yaml").write_text(text)

    def install(self, *names: str) -> None:
        """Puts conformance plugins in place and switches them on."""
        for name in names:
            self.run("plugins", "install", str(HERE / name), "--enable", "--yes")

    def say(self, text: str) -> str:
        """One turn; gives the session."""
        return str(self.json("chat", "--json", "-q", text)["session_id"])

    def heard(self) -> dict[str, list[set[str]]]:
        """What `every_hook` heard: the fields of each call by hook."""
        out: dict[str, list[set[str]]] = {}
        path = self.root / "every_hook.jsonl"
        for line in path.read_text().splitlines() if path.exists() else []:
            name, fields = json.loads(line)
            out.setdefault(name, []).append(set(fields))
        return out

    @contextlib.contextmanager
    def server(self, script: list[dict[str, Any]], files: dict[str, str]) -> Iterator[str]:
        """The rehearsal server with a script; gives its address."""
        folder = self.root.parent / "script"
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        (folder / "script.json").write_text(json.dumps(script))
        serving = subprocess.Popen(
            [str(self.hermes), "rehearse", "serve", "--script", str(folder / "script.json")],
            env=self.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            held(serving.stdout, "no pipe")
            yield (serving.stdout.readline() if serving.stdout else "").strip()
        finally:
            serving.terminate()
            serving.wait(PATIENCE)
            if serving.stdout:
                serving.stdout.close()


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, home: Home, *args: str) -> None:
        self.seen = b""
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(home.work)
            os.execve(str(home.hermes), [str(home.hermes), *args], home.env())
        self.pid: int | None = pid
        # Wide, so that no answer is broken into lines.
        subprocess.run(["stty", "rows", "50", "columns", "2000"], stdin=self.fd, check=True)

    def read(self, wait: float) -> bool:
        """Takes what comes; whether the program is still there."""
        ready, _, _ = select.select([self.fd], [], [], wait)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += data
        for _ in range(data.count(WHERE)):
            os.write(self.fd, b"\x1b[1;1R")
        return bool(data)

    def text(self) -> str:
        """What was shown since the last question, without what steers the terminal."""
        plain = re.sub(rb"\x1b\[[0-9;?>]*[a-zA-Z]|\x1b[=>]|\r", b"", self.seen)
        return plain.decode(errors="replace")

    def wait(self, pattern: str) -> str:
        """Waits until the pattern was shown; gives what matched."""
        end = time.monotonic() + PATIENCE
        while True:
            if found := re.search(pattern, self.text(), re.S):
                return found[0]
            alive = self.read(0.2)
            held(time.monotonic() < end and alive, f"waited for {pattern!r}, saw {self.text()}")

    def line(self, text: str, wanted: str) -> str:
        """Types a line and waits for what it brings."""
        self.seen = b""
        os.write(self.fd, text.encode() + b"\r")
        return self.wait(wanted)

    def end(self) -> None:
        """Leaves by Ctrl-D."""
        os.write(self.fd, b"\x04")
        end = time.monotonic() + PATIENCE
        while self.read(0.2):
            held(time.monotonic() < end, f"the program does not end: {self.text()}")
        if self.pid is not None:
            os.waitpid(self.pid, 0)
            self.pid = None

    def __enter__(self) -> Terminal:
        self.wait("help lists commands")
        return self

    def __exit__(self, *_: object) -> None:
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def endpoint(address: str) -> str:
    """Settings with this server as the only provider."""
    return (
        "model:\n  default: scripted\n  provider: custom\n"
        f"  base_url: {address}\n  api_key: test-not-a-key\n  context_length: 200000\n"
    )


def stream(*deltas: dict[str, Any], finish: str) -> str:
    """A streamed answer as it stands on the wire."""
    chunks: list[dict[str, Any]] = [
        {"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas
    ]
    chunks.append({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def scene_turns(home: Home) -> None:
    """Turns with tools, a child, an edited file, a failed request, text between two tools."""
    home.config("approvals:\n  allow: ['echo hello']\n")
    home.install("every_hook")
    home.say("run echo hello")
    home.say("write some text to note.txt")
    home.say("delegate count the files")
    call = {"name": "read_file", "arguments": json.dumps({"path": "note.txt"})}
    tool = {"index": 0, "id": "call_1", "type": "function", "function": call}
    between = stream(
        {"role": "assistant", "content": "Let me look."},
        {"tool_calls": [tool]},
        finish="tool_calls",
    )
    script: list[dict[str, Any]] = [
        {"status": 500, "body": {"error": {"message": "out of order"}}},
        {"file": "between.sse"},
        {"say": "That is all."},
    ]
    settings = (home.root / "config.yaml").read_text()
    with home.server(script, {"between.sse": between}) as address:
        home.config(endpoint(address) + settings)
        home.say("hello")
    home.config(settings)


def scene_end(home: Home) -> None:
    """A session grows, is compacted, handed over and deleted."""
    session = home.say("hello " + "and much more of it " * 400)
    for number in range(6):
        home.run("chat", "-Q", "--resume", session, "-q", f"{number} " + "words of weight " * 400)
    home.run("sessions", "compress", session, "--here", "1")
    home.run("handoff", "build", "--session-id", session, code=None)
    home.run("sessions", "delete", session, "--yes")


def scene_terminal(home: Home) -> None:
    """A person types commands, is asked, and begins anew."""
    with Terminal(home) as terminal:
        terminal.line("/usage", "nothing was sent")
        terminal.line("run touch made", r"\[o\]nce")
        terminal.line("o", "(?i)made|exit")
        terminal.wait(r"\n> ")
        terminal.line("/new", "session [0-9_a-f]+")
        terminal.end()


def check_every_hook(home: Home) -> None:
    """Each hook that is listed as fired is heard, with the fields that it is known for."""
    scene_turns(home)
    scene_end(home)
    scene_terminal(home)
    heard = home.heard()
    listed = {hook["hook"]: hook for hook in home.json("hooks", "list", "--json")["hooks"]}
    held(len(listed) == 47, f"{len(listed)} hooks are listed")
    fired = {name for name, hook in listed.items() if hook["fired"]}
    silent = sorted(fired - heard.keys())
    held(not silent, f"listed as fired and not heard: {', '.join(silent)}")
    more = sorted(heard.keys() - fired)
    held(not more, f"heard and not listed as fired: {', '.join(more)}")
    for name, calls in sorted(heard.items()):
        schema = {"telemetry_schema_version"}
        for fields in calls:
            missing = sorted((FIELDS[name] | schema) - fields)
            held(not missing, f"{name} lacks {', '.join(missing)}; it has {sorted(fields)}")


def check_every_member(home: Home) -> None:
    """Each registrar of the context object registers, and what it registered works."""
    home.install("every_member")
    report = home.json("plugins", "doctor", "every_member", "--json")["plugins"][0]
    held(report["loaded"] and not report["refused"], f"{report}")
    held(report["hooks"] == {"on_session_start": 1}, "hooks")
    held(report["middleware"] == {"tool_request": 1}, "middleware")
    held([tool["name"] for tool in report["tools"]] == ["member_tool"], "tools")
    held(report["commands"] == ["member"] and report["cli_commands"] == ["member"], "commands")
    held(report["aux_tasks"] == ["member_task"], "side tasks")
    held(report["context_engine"]["class"] == "Engine", "context engine")
    held(report["platforms"]["member"]["label"] == "Member", "platform")
    held(len(report["other_providers"]) == 11, f"{report['other_providers']}")
    held(home.run("member", "--loud").stdout == "MEMBER\n", "its own command")
    skills = {skill["name"] for skill in home.json("skills", "list", "--json")}
    held("every_member:member" in skills, f"{skills}")
    home.say("hello")
    request = home.json("requests", "list", "--json")[0]["id"]
    body = home.run("requests", "body", request).stdout
    for text in ["A fixed section.", "Model rehearsal", "member_tool"]:
        held(text in body, f"{text!r} is not in the request")
    held("x" * 5000 not in body, "a section that is too long is left out")


def check_services(home: Home) -> None:
    """Each service that a plugin may ask for answers, or raises as in the original."""
    (home.root / ".env").write_text("MEMBER_KEY=sk-test-not-a-key\n")
    home.config("plugins:\n  entries:\n    services:\n      settings: {greeting: hello}\n")
    home.install("services")
    (home.work / "note.txt").write_text("the keeper is Amaranth\n")
    with Terminal(home) as terminal:
        terminal.line("hello", ANSWERED)
        answer = terminal.line("/services", r"\{\"absent\".*?\}\n")
        terminal.wait("from a plugin")
        terminal.end()
    said = json.loads(answer)
    expected = {
        "plugin_id": "services",
        "profile_name": "default",
        "manifest": "1.0",
        "has_plugin": [True, False],
        "has_capability": False,
        "config": "hello",
        "load_config": ["services"],
        "env": "sk-test-not-a-key",
        "state": 1,
        "inject_message": True,
        "llm_model": "PluginLlmTrustError",
        "mcp": "PermissionError",
        "emit": 0,
        # What a plugin asked of a model is kept with a session of its own.
        "sessions": 2,
        "sessions_write": "PermissionError",
        "gateway": True,
        "absent": "AttributeError",
    }
    for name, value in expected.items():
        held(said.get(name) == value, f"{name}: {said.get(name)!r}, expected {value!r}")
    for name in ["llm", "call_llm"]:
        held("rehearsal model" in said[name], f"{name}: {said[name]!r}")


def check_rules_come_back(home: Home) -> None:
    """Pattern a: after a compaction the next turn of the session has its rules again, once."""
    home.install("rules_again")
    session = home.say("hello " + "and much more of it " * 400)
    for number in range(6):
        home.run("chat", "-Q", "--resume", session, "-q", f"{number} " + "words of weight " * 400)
    home.run("sessions", "compress", session, "--here", "1")

    def rules(request: str) -> int:
        # The rehearsal provider says again what it read; only what the person's rows hold counts.
        messages = json.loads(home.run("requests", "body", request).stdout)["messages"]
        said = [str(message["content"]) for message in messages if message["role"] == "user"]
        return " ".join(said).count("Rules of this project")

    # The compaction was made by another process, which told its own plugins of it; one made inside
    # a conversation is told to the process that goes on.
    with Terminal(home, "--resume", session) as terminal:
        terminal.line("and more", ANSWERED)
        terminal.line("/compress here 1", "coverage")
        terminal.line("and now?", ANSWERED)
        terminal.end()
    newest = home.json("requests", "list", "--session", session, "--json")[0]["id"]
    held(rules(newest) == 1, "the rules are not in the next request")
    answer = home.json("chat", "--json", "--resume", session, "-q", "and then?")
    held(rules(answer["requests"][-1]) == 1, "the rules stay where they were, and come once")


def check_side_files(home: Home) -> None:
    """Pattern b: a session's side file goes with the session, for every kind of deletion."""
    home.install("side_files")
    one, two, three = (home.say("hello") for _ in range(3))
    folder = home.root / "side-files"

    def left() -> list[str]:
        return sorted(path.stem for path in folder.iterdir())

    held(left() == sorted([one, two, three]), f"{left()}")
    home.run("sessions", "delete", one, "--yes")
    held(left() == sorted([two, three]), f"{left()}")
    home.run("sessions", "archive", two)
    held(left() == [three], f"{left()}")
    home.run("sessions", "prune", "--yes", "--min-messages", "1", "--older-than", "0")
    held(left() == [], f"{left()}")


def check_whoami(home: Home) -> None:
    """Pattern c: a command is told who asks, where, and in which session."""
    home.install("whoami")
    with Terminal(home) as terminal:
        terminal.line("/whoami", r"user local on cli, session \(none yet\)")
        terminal.line("hello", ANSWERED)
        terminal.line("/whoami", r"user local on cli, session \d{8}_\d{6}_[0-9a-f]{6}")
        terminal.line("/old-style x", r"got 'x'")
        terminal.line("/everything", "platform,session_id,session_key,source")
        terminal.line("/wipe", "refused")
        terminal.end()


def check_native(home: Home) -> None:
    """The example in a shell is a plugin like any other."""
    example = HERE.parent.parent / "crates/hermes-plugins/examples/native-shell"
    home.config("approvals:\n  allow: ['git push --force']\n")
    home.run("plugins", "install", str(example), "--enable", "--yes")
    with Terminal(home) as terminal:
        terminal.line("/load", "(?i)load|up")
        terminal.line("run git push --force", "force pushes are not allowed here")
        terminal.end()


CHECKS = [
    check_every_hook,
    check_every_member,
    check_services,
    check_rules_come_back,
    check_side_files,
    check_whoami,
    check_native,
]


def main() -> int:
    """Runs the checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hermes", required=True, type=Path)
    parser.add_argument("checks", nargs="*", help="names, all without any")
    options = parser.parse_args()
    hermes = options.hermes.resolve()
    failed = 0
    began = time.monotonic()
    for check in CHECKS:
        name = check.__name__.removeprefix("check_")
        if options.checks and name not in options.checks:
            continue
        at = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix="hermes-conformance-"))
        try:
            check(Home(folder, hermes))
            print(f"ok    {name} ({time.monotonic() - at:.1f} s)", flush=True)
        except (AssertionError, subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
            failed += 1
            print(f"fail  {name}: {type(error).__name__}: {error}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"conformance: {failed} failed, in {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

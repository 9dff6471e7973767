"""A host process with this test as its runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

START = Path(__file__).resolve().parent.parent / "start.py"


class Runtime:
    """Speaks the protocol with a host and answers what it asks with made-up answers."""

    def __init__(self, plugin: str = "", **settings: Any) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        self.process = subprocess.Popen(
            [sys.executable, str(START)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "HERMES_HOME": str(self.home)},
        )
        self.number = 0
        self.registered: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}
        hooks = ["pre_llm_call", "pre_tool_call", "on_session_start", "pre_gateway_dispatch"]
        defaults = {"home": str(self.home), "profile": "default", "valid_hooks": hooks}
        self.hello = self.call("initialize", {**defaults, **settings})
        if plugin:
            self.loaded = self.load("p", plugin)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.process.stdin.close()
        self.process.wait(timeout=10)
        self.process.stdout.close()
        self.process.stderr.close()
        self.folder.cleanup()

    def send(self, message: dict[str, Any]) -> None:
        """Writes one frame."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Reads one frame."""
        assert self.process.stdout
        length = 0
        while line := self.process.stdout.readline().strip():
            length = int(line.split(b":")[1])
        if not length:
            assert self.process.stderr
            raise EOFError(self.process.stderr.read().decode())
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return message

    def take(self) -> dict[str, Any] | None:
        """Reads one frame; answers it if it is a request, keeps it if it is a remark."""
        message = self.receive()
        if "method" not in message:
            return message
        if "id" not in message:
            self.said.append(message)
            return None
        self.asked.append(message)
        method, params = message["method"], message["params"]
        if method == "register":
            self.registered.append(params)
            default: Any = {"accepted": True, "handle": len(self.registered)}
        else:
            default = None
        answer = self.answers.get(method, default)
        if isinstance(answer, dict) and "raise" in answer:
            self.send({"id": message["id"], "error": answer["raise"]})
        else:
            self.send({"id": message["id"], "result": answer})
        return None

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Asks the host and waits for its answer."""
        self.number += 1
        number = self.number
        self.send({"id": number, "method": method, "params": params})
        while True:
            message = self.take()
            if message is not None and message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(message["error"])
                return message.get("result")

    def load(self, key: str, code: str, **params: Any) -> dict[str, Any]:
        """Writes a plugin and loads it."""
        folder = self.home / "plugins" / key
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(code, encoding="utf-8")
        answer: dict[str, Any] = self.call(
            "load", {"key": key, "name": key, "folder": str(folder), **params}
        )
        return answer

    def refs(self, kind: str, key: str) -> list[int]:
        """The numbers of the callables registered under a key."""
        return [
            item["calls"]["call"]
            for item in self.registered
            if (item["kind"], item["key"]) == (kind, key)
        ]

    def fan(self, hook: str, payload: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        """Tells all callbacks of a hook and collects their results."""
        self.number += 1
        refs = self.refs("hook", hook)
        params = {"hook": hook, "refs": refs, "ids": refs, "payload": payload, **more}
        self.send({"id": self.number, "method": "fanout", "params": params})
        results: list[dict[str, Any]] = []
        while len(results) < len(refs):
            before = len(self.said)
            self.take()
            for message in self.said[before:]:
                if message["method"] == "result":
                    results.append(message["params"])
        return results

"""Loads published packages in a scratch home and compares what they register with records of the
original. Run by hand; nothing of it runs in the project's own checks.

    python3 python/compat/run.py --expected expected.json --doctor target/debug/examples/doctor \
        --work /tmp/compat [--report docs/plugins-compatibility.md] [PACKAGE ...]

Each package is installed with pip into a folder of its own below `--work`. The packages are other
people's code: they run without credentials, in a home folder that is thrown away, with a time limit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HOST_PACKAGES = [
    "httpx",
    "requests",
    "cryptography",
    "psutil",
    "ruamel.yaml",
    "rich",
    "aiohttp",
    "tenacity",
]
"""What the original's own environment brings, and some packages count on without saying so."""


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(command, text=True, check=False, **options)


class Bench:
    """Where packages are installed and loaded."""

    def __init__(self, work: Path, doctor: str) -> None:
        self.work = work
        self.doctor = doctor
        self.python = work / "venv" / "bin" / "python"

    def prepare(self) -> None:
        """Makes the environment that all packages share."""
        if self.python.exists():
            return
        run([sys.executable, "-m", "venv", str(self.work / "venv")])
        run([str(self.python), "-m", "pip", "install", "-q", *HOST_PACKAGES])

    def install(self, record: dict[str, Any]) -> Path | None:
        """Installs one package and what it needs; None if pip will not."""
        folder = self.work / "packages" / record["package"]
        site: Path = folder / "site"
        done = folder / "installed"
        if done.exists():
            return site
        shutil.rmtree(folder, ignore_errors=True)
        site.mkdir(parents=True)
        pip = [str(self.python), "-m", "pip", "install", "-q", "--target", str(site)]
        pip += ["--disable-pip-version-check", "--no-warn-script-location"]
        wanted = f"{record['package']}=={record['version']}"
        with open(folder / "pip.log", "w", encoding="utf-8") as log:
            first = run([*pip, "--no-deps", wanted], stdout=log, stderr=log, timeout=300)
            if first.returncode != 0:
                return None
            needs = record["installed_dependencies"]
            if needs and run([*pip, *needs], stdout=log, stderr=log, timeout=600).returncode != 0:
                return None
        run([str(self.python), "-m", "compileall", "-q", str(site)], capture_output=True)
        done.write_text("")
        return site

    def load(self, record: dict[str, Any], variant: dict[str, Any], site: Path) -> dict[str, Any]:
        """Loads a package as its record says and gives what the doctor says."""
        folder = self.work / "packages" / record["package"]
        user = folder / "user"
        shutil.rmtree(user, ignore_errors=True)
        home = user / ".hermes"
        (home / "plugins").mkdir(parents=True)
        env = {
            "PATH": f"{self.python.parent}:/usr/bin:/bin",
            "HOME": str(user),
            "LANG": "C.UTF-8",
            "HERMES_HOME": str(home),
            "PYTHONPATH": str(site),
            "HERMES_PYTHON": str(self.python),
        }
        config: dict[str, Any] = {"plugins": {"enabled": []}}
        names: list[str] = config["plugins"]["enabled"]
        for how in variant["how_enabled"]:
            self._enable(how, record, site, home, env, config, names)
        for name in record["memory_providers"]:
            config["memory"] = {"provider": name}
        for name in record["context_engine_lane"] or []:
            config["context"] = {"engine": name}
        # JSON is YAML.
        (home / "config.yaml").write_text(json.dumps(config, indent=1), encoding="utf-8")
        calls = [call["hook"] for call in variant["hook_calls"]]
        try:
            done = run(
                [self.doctor, str(home), *calls],
                env=env,
                cwd=str(user),
                capture_output=True,
                timeout=120,
            )
        except subprocess.TimeoutExpired:
            return {"failed": "no answer within 120 s"}
        (folder / "stderr.log").write_text(done.stderr, encoding="utf-8")
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            return {"failed": (done.stderr or done.stdout)[-400:]}
        return together(answer)

    def _enable(
        self,
        how: str,
        record: dict[str, Any],
        site: Path,
        home: Path,
        env: dict[str, str],
        config: dict[str, Any],
        names: list[str],
    ) -> None:
        if match := re.match(r"entry point hermes_agent\.plugins: ([^=]+)=", how):
            names.append(match[1])
        elif match := re.match(
            r"directory plugin: <site>/(\S+) copied to <home>/plugins/(\S+)", how
        ):
            target = home / "plugins" / match[2]
            shutil.copytree(site / match[1], target, symlinks=True)
            names.append(match[2])
        elif how.startswith("installer: "):
            code = how.removeprefix("installer: ")
            installed = run(
                [str(self.python), "-c", code], env=env, capture_output=True, timeout=60
            )
            if installed.returncode:
                print(f"  installer: {installed.stderr[-300:]}", file=sys.stderr)
            for key in record["plugin_keys"]:
                names.append(key["key"])
        elif how.startswith("environment: "):
            for pair in how.removeprefix("environment: ").split(", "):
                name, _, value = pair.partition("=")
                env[name] = value
        elif how.startswith("config.yaml: "):
            for name, value in json.loads(how.removeprefix("config.yaml: ")).items():
                config[name] = {**config.get(name, {}), **value}
        elif match := re.match(r"stand-in executable on PATH: (\S+)", how):
            folder = home.parent / "bin"
            folder.mkdir(exist_ok=True)
            (folder / match[1]).write_text("#!/bin/sh\necho stand-in 1.0.0\n")
            (folder / match[1]).chmod(0o755)
            env["PATH"] = f"{folder}:{env['PATH']}"
        elif not how.startswith(("entry point", "site-packages merged")):
            print(f"  not understood: {how}", file=sys.stderr)


def together(answer: dict[str, Any]) -> dict[str, Any]:
    """One record for all plugins of a home folder, as the expected ones are."""
    out: dict[str, Any] = {
        "loaded": False,
        "hooks": {},
        "middleware": {},
        "tools": [],
        "commands": [],
        "cli_commands": [],
        "skills": [],
        "prompt_sections": [],
        "aux_tasks": [],
        "other_providers": {},
        "memory_providers": {},
        "model_providers": {},
        "platforms": {},
        "import_failures": {},
        "context_engine": None,
        "context_engine_lane": None,
        "hook_calls": answer["hook_calls"],
        "problems": answer["problems"],
        "errors": [],
    }
    for plugin in answer["plugins"]:
        out["loaded"] = out["loaded"] or plugin["loaded"]
        if plugin["error"]:
            out["errors"].append(f"{plugin['key']}: {plugin['error']}")
        memory = plugin["key"].startswith("memory/")
        for name in ("hooks", "middleware"):
            # What the memory lane brings is recorded apart from the rest.
            target = out.setdefault("hooks_after_memory_lane", {}) if memory else out[name]
            for key, count in plugin[name].items():
                target[key] = target.get(key, 0) + count
        for name in ("tools", "commands", "cli_commands", "skills", "prompt_sections", "aux_tasks"):
            out[name] += plugin[name]
        for kind, names in plugin["other_providers"].items():
            out["other_providers"].setdefault(kind, []).extend(names)
        for name in ("memory_providers", "model_providers", "platforms", "import_failures"):
            out[name].update(plugin[name])
        for name in ("context_engine", "context_engine_lane"):
            out[name] = plugin[name] or out[name]
    return out


def tools_of(items: list[dict[str, Any]]) -> list[Any]:
    """Tools as they are compared."""
    return sorted((t["name"], t["toolset"], sorted(t["params"])) for t in items)


def providers_of(side: dict[str, Any]) -> dict[str, Any]:
    """Providers as they are compared: by kind and name."""
    out: dict[str, Any] = {
        kind: sorted(names) for kind, names in side["other_providers"].items() if names
    }
    memory = [n for n, p in side["memory_providers"].items() if p.get("loaded")]
    if memory:
        out["memory_provider"] = sorted(memory)
        classes = [side["memory_providers"][n].get("class") for n in sorted(memory)]
        out["memory classes"] = sorted(c for c in classes if c)
    if side["model_providers"]:
        out["model_provider"] = {
            name: {key: profile.get(key) for key in ("base_url", "api_mode", "auth_type")}
            for name, profile in side["model_providers"].items()
        }
    if side["platforms"]:
        out["platform"] = sorted(side["platforms"])
    engine = side["context_engine"]
    if engine:
        out["context_engine"] = [engine.get("class"), engine.get("name")]
    lane = side["context_engine_lane"]
    if lane:
        out["context_engine_lane"] = sorted(lane)
    return out


def differences(wanted: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """Where two records differ."""
    if "failed" in got:
        return [f"no report: {got['failed']}"]
    pairs: list[tuple[str, Any, Any]] = [
        ("loaded", bool(wanted["loaded"]), bool(got["loaded"])),
        ("hooks", wanted["hooks"], got["hooks"]),
        ("middleware", wanted["middleware"], got["middleware"]),
        ("tools", tools_of(wanted["tools"]), tools_of(got["tools"])),
        ("commands", sorted(wanted["commands"]), sorted(got["commands"])),
        ("cli commands", sorted(wanted["cli_commands"]), sorted(got["cli_commands"])),
        ("skills", sorted(wanted["skills"]), sorted(got["skills"])),
        ("prompt sections", sorted(wanted["prompt_sections"]), sorted(got["prompt_sections"])),
        (
            "hooks after the memory lane",
            wanted.get("hooks_after_memory_lane") or {},
            got.get("hooks_after_memory_lane") or {},
        ),
        ("aux tasks", sorted(wanted["aux_tasks"]), sorted(got["aux_tasks"])),
        ("providers", providers_of(wanted), providers_of(got)),
    ]
    out = []
    for what, left, right in pairs:
        if left != right:
            out.append(f"{what}: wanted {json.dumps(left)[:300]}, got {json.dumps(right)[:300]}")
    if out and got["errors"] + got["problems"]:
        out[-1] += f" ({'; '.join(got['errors'] + got['problems'])[:400]})"
    return out


def call_differences(wanted: dict[str, Any], got: dict[str, Any]) -> tuple[int, int, list[str]]:
    """Recorded hook calls: how many were compared, how many agree, and those that do not."""
    mine: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for call in got.get("hook_calls", []):
        mine.setdefault((call["hook"], short(call["callback"])), []).append(call)
    compared = agree = 0
    out = []
    for call in wanted["hook_calls"]:
        found = mine.get((call["hook"], short(call["callback"])), [])
        if not found:
            continue
        here = found.pop(0)
        compared += 1
        left = shape(call.get("result", call.get("exception", "")), call.get("result_type"))
        right = shape(here.get("result", here.get("error", "")), here.get("result_type"))
        if left == right:
            agree += 1
        else:
            out.append(f"{call['hook']} ({short(call['callback'])}): {left} became {right}")
    return compared, agree, out


def short(name: str) -> str:
    """The last part of a callback's name."""
    return name.rsplit(".", 1)[-1]


def shape(result: Any, kind: Any) -> str:
    """What of a result does not depend on paths, times and ids."""
    text = str(result)
    if kind in (None, "NoneType"):
        return text.split(":")[0][:60]
    if match := re.search(r"'action': '(\w+)'", text):
        return f"{kind} {match[1]}"
    keys = ",".join(sorted(re.findall(r"[{,] ?'(\w+)':", text[:200]))[:3])
    return f"{kind} {keys}"


def main() -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expected", required=True, type=Path)
    parser.add_argument("--doctor", required=True)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--report", type=Path)
    parser.add_argument(
        "--explained", type=Path, default=Path(__file__).with_name("explained.json")
    )
    parser.add_argument("packages", nargs="*")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.work.resolve(), os.path.abspath(options.doctor))
    bench.prepare()
    records = json.loads(options.expected.read_text(encoding="utf-8"))
    explained = {}
    if options.explained.exists():
        explained = json.loads(options.explained.read_text(encoding="utf-8"))
    rows = []
    for record in records:
        name = record["package"]
        if options.packages and name not in options.packages:
            continue
        site = bench.install(record)
        if site is None:
            rows.append({"package": name, "version": record["version"], "installed": False})
            print(f"{name}: pip does not install it")
            continue
        found: list[str] = []
        compared = agree = 0
        calls: list[str] = []
        degraded: dict[str, Any] = {}
        for label, variant in [("", record), *(record.get("variants") or {}).items()]:
            got = bench.load(record, variant, site)
            prefix = f"{label}: " if label else ""
            found += [prefix + line for line in differences(variant, got)]
            some, same, lines = call_differences(variant, got)
            compared, agree = compared + some, agree + same
            calls += [prefix + line for line in lines]
            degraded.update(got.get("import_failures") or {})
        rows.append(
            {
                "package": name,
                "version": record["version"],
                "installed": True,
                "differences": found,
                "calls": [compared, agree],
                "call_differences": calls,
                "degraded": degraded,
                "variants": 1 + len(record.get("variants") or {}),
            }
        )
        print(f"{name}: {'equal' if not found else 'DIFFERS'}; hook calls {agree}/{compared}")
        for line in found + calls:
            print(f"    {line}")
    equal = sum(1 for row in rows if row.get("installed") and not row["differences"])
    print(f"{equal} of {len(rows)} equal")
    if options.report:
        options.report.write_text(report(rows, explained), encoding="utf-8")
    return 0


def report(rows: list[dict[str, Any]], explained: dict[str, str]) -> str:
    """The page of the guide."""
    tested = [row for row in rows if row["installed"]]
    equal = [row for row in tested if not row["differences"]]
    lines = [
        "# Published plugins",
        "",
        "What published packages register here, against what they register in Hermes Agent 0.22.2.",
        "Made by `python/compat/run.py` in scratch homes; not part of the project's checks.",
        "",
        f"{len(equal)} of {len(tested)} packages register the same: hooks by name and count,",
        "middleware, tools with toolset and parameters, commands, skills, prompt sections and",
        "providers, unconfigured and (where there is a second run) configured.",
        "",
        "| package | version | registers | hook calls that agree | names that are not there |",
        "|---|---|---|---|---|",
    ]
    for row in tested:
        same = "the same" if not row["differences"] else "something else, see below"
        compared, agree = row["calls"]
        missing = ", ".join(
            f"`{module}`" + (f" ({', '.join(names)})" if names else "")
            for module, names in sorted(row["degraded"].items())
        )
        hooks = f"{agree} of {compared}" if compared else ""
        lines.append(f"| {row['package']} | {row['version']} | {same} | {hooks} | {missing} |")
    lines += ["", "## Differences, one by one", ""]
    for row in rows:
        name = row["package"]
        if not row["installed"]:
            lines += [f"- **{name}**: pip does not install it on the machine that was used."]
            continue
        for line in row["differences"] + row["call_differences"]:
            lines.append(f"- **{name}**: {line}")
        if (row["differences"] or row["call_differences"]) and name in explained:
            lines.append(f"  Why: {explained[name]}")
    if lines[-1] == "":
        lines.append("None.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

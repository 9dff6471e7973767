"""The host, spoken to as the runtime does it."""

from __future__ import annotations

import unittest

from .rig import Runtime


class Calls(unittest.TestCase):
    """Callbacks and what they get."""

    def test_callbacks_run_in_order_and_get_what_they_declare(self) -> None:
        code = (
            "def a(model): return model\n"
            "def b(**e): return sorted(e)\n"
            "def c(missing): return 1\n"
            "def register(ctx):\n"
            "    for f in (a, b, c): ctx.register_hook('pre_llm_call', f)\n"
        )
        with Runtime(code) as runtime:
            results = runtime.fan("pre_llm_call", {"model": "m", "session_id": "s"})
            self.assertEqual(
                [r.get("value") for r in results], ["m", ["model", "session_id"], None]
            )
            self.assertEqual(results[2]["error"]["type"], "TypeError")

    def test_a_list_is_kept_between_calls_and_each_callback_gets_its_own(self) -> None:
        code = (
            "def a(history):\n    n = len(history)\n    history.clear()\n    return n\n"
            "def register(ctx):\n"
            "    ctx.register_hook('pre_llm_call', a)\n    ctx.register_hook('pre_llm_call', a)\n"
        )
        with Runtime(code) as runtime:
            reference = {"history": {"$list": "k"}}
            new = [{"role": "user"}, {"role": "assistant"}]
            first = [{"from": 0, "new": new}, {"key": "k", "keep": 0, "rows": [0]}]
            more = [{"key": "k", "keep": 1, "rows": [1]}, {"forget": [0]}]
            values = [r["value"] for r in runtime.fan("pre_llm_call", reference, mirror=first)]
            self.assertEqual(values, [1, 1])
            values = [r["value"] for r in runtime.fan("pre_llm_call", reference, mirror=more)]
            self.assertEqual(values, [2, 2])

    def test_a_callback_that_is_skipped_does_not_hold_up_the_next_and_its_end_is_told(self) -> None:
        code = (
            "import threading\nGO = threading.Event()\n"
            "def slow(): GO.wait(10)\n"
            "def next_one(): GO.set(); return 'next'\n"
            "def register(ctx):\n"
            "    ctx.register_hook('pre_llm_call', slow)\n"
            "    ctx.register_hook('pre_llm_call', next_one)\n"
        )
        with Runtime(code) as runtime:
            refs = runtime.refs("hook", "pre_llm_call")
            params = {"hook": "pre_llm_call", "refs": refs, "ids": [70, 71], "payload": {}}
            runtime.send({"id": 900, "method": "fanout", "params": params})
            runtime.send({"method": "skip", "params": {"call": 900, "index": 0}})
            while len(runtime.said) < 2:
                runtime.take()
            said = {message["method"]: message["params"] for message in runtime.said}
            self.assertEqual(said["result"]["value"], "next")
            self.assertEqual(said["late"], {"entry": 70})

    def test_values_that_json_cannot_hold_arrive_as_something_it_can(self) -> None:
        code = (
            "import datetime, enum, pathlib\n"
            "class E(enum.Enum):\n    A = 'a'\n"
            "def a():\n"
            "    return {'nan': float('nan'), 'set': {2, 1}, 3: 'key', 'e': E.A,\n"
            "            'p': pathlib.PurePosixPath('/x'), 'bad': '\\ud800', 'b': b'x',\n"
            "            't': (1, 2), 'd': datetime.date(2026, 1, 2)}\n"
            "def register(ctx): ctx.register_hook('pre_llm_call', a)\n"
        )
        with Runtime(code) as runtime:
            value = runtime.fan("pre_llm_call", {})[0]["value"]
            wanted = {"nan": None, "set": [1, 2], "3": "key", "e": "a", "p": "/x", "bad": "?"}
            self.assertEqual(value, {**wanted, "b": "x", "t": [1, 2], "d": "2026-01-02"})

    def test_what_cannot_be_looked_at_sent_or_timed_is_an_answer_all_the_same(self) -> None:
        code = (
            "import json, time\n"
            "class Evil:\n"
            "    def __repr__(self): raise RuntimeError\n"
            "    def __getattr__(self, name): raise OSError\n"
            "def evil(): return {'a': Evil(), Evil(): 10 ** 20000}\n"
            "def deep():\n    x = []\n    for _ in range(100000): x = [x]\n    return x\n"
            "def patch(): json.dumps = time.perf_counter = None\n"
            "def after(): return 'after'\n"
            "def register(ctx):\n"
            "    for f in (evil, deep, patch, after): ctx.register_hook('pre_llm_call', f)\n"
        )
        with Runtime(code) as runtime:
            results = runtime.fan("pre_llm_call", {})
            self.assertEqual(len(results[0]["value"]), 2)
            self.assertIsInstance(results[1]["value"], list)
            self.assertEqual(results[3]["value"], "after")

    def test_session_variables_belong_to_the_call(self) -> None:
        code = (
            "from gateway.session_context import get_session_env\n"
            "def a(): return get_session_env('HERMES_SESSION_KEY', 'none')\n"
            "def register(ctx): ctx.register_hook('pre_llm_call', a)\n"
        )
        with Runtime(code) as runtime:
            call = {"session_id": "s", "session_key": "agent:main:cli"}
            self.assertEqual(
                runtime.fan("pre_llm_call", {}, call=call)[0]["value"], call["session_key"]
            )
            self.assertEqual(runtime.fan("pre_llm_call", {})[0]["value"], "none")


class Context(unittest.TestCase):
    """The context object."""

    def test_exceptions_of_the_runtime_arrive_as_the_class_that_plugins_catch(self) -> None:
        code = (
            "def a():\n"
            "    try:\n        CTX.llm.complete('x', model='m')\n"
            "    except PermissionError as e:\n        return type(e).__name__ + ' ' + str(e)\n"
            "def register(ctx):\n    global CTX\n    CTX = ctx\n"
            "    ctx.register_hook('pre_llm_call', a)\n"
        )
        with Runtime(code) as runtime:
            types = ["PluginLlmTrustError", "PermissionError"]
            runtime.answers["llm.complete"] = {
                "raise": {"type": types[0], "types": types, "message": "no"}
            }
            self.assertEqual(runtime.fan("pre_llm_call", {})[0]["value"], "PluginLlmTrustError no")

    def test_a_model_answers_text_and_data_that_fits_its_schema(self) -> None:
        code = (
            "SCHEMA = {'type': 'object', 'required': ['n'], 'properties': {'n': {'type': 'integer'}}}\n"
            "def a():\n"
            "    r = CTX.llm.complete_structured(instructions='i', input='x', json_schema=SCHEMA)\n"
            "    return [r.text, r.parsed, r.usage.input_tokens]\n"
            "def register(ctx):\n    global CTX\n    CTX = ctx\n"
            "    ctx.register_hook('pre_llm_call', a)\n"
        )
        with Runtime(code) as runtime:
            runtime.answers["llm.complete"] = {"text": '{"n": 1}', "usage": {"input_tokens": 3}}
            self.assertEqual(runtime.fan("pre_llm_call", {})[0]["value"], ['{"n": 1}', {"n": 1}, 3])
            runtime.answers["llm.complete"] = {"text": '{"n": "one"}'}
            error = runtime.fan("pre_llm_call", {})[0]["error"]
            self.assertEqual(error["type"], "ValueError")
            runtime.answers["llm.complete"] = {"text": "no data"}
            self.assertEqual(runtime.fan("pre_llm_call", {})[0]["value"], ["no data", None, None])

    def test_shapes_are_checked_before_the_runtime_is_asked(self) -> None:
        code = (
            "def register(ctx):\n"
            "    out = []\n"
            "    for call in (\n"
            "        lambda: ctx.register_tool('t', 's', 'no mapping', print),\n"
            "        lambda: ctx.register_skill('a:b', '/'),\n"
            "        lambda: ctx.register_skill('a', '/no/such/place'),\n"
            "        lambda: ctx.register_system_prompt_section('Bad Id', 'x'),\n"
            "        lambda: ctx.register_platform('p', 'P', print, print, no_such_field=1),\n"
            "        lambda: ctx.register_approval_transport('builtin', print),\n"
            "        lambda: ctx.get_config('a/b'),\n"
            "        lambda: ctx.get_config('model.x'),\n"
            "        lambda: ctx.emit('a:b'),\n"
            "        lambda: ctx.state.set('../x', 1),\n"
            "        lambda: ctx.options,\n"
            "    ):\n"
            "        try:\n            call()\n"
            "        except Exception as e:\n            out.append(type(e).__name__)\n"
            "    ctx.register_hook('pre_llm_call', lambda: out)\n"
            "    assert ctx.register_command('  ', print) is None\n"
            "    assert ctx.register_tts_provider(object()) is None\n"
        )
        with Runtime(code) as runtime:
            self.assertIsNone(runtime.loaded["error"])
            wanted = ["ValueError", "ValueError", "FileNotFoundError", "ValueError", "TypeError"]
            wanted += ["ValueError"] * 5 + ["AttributeError"]
            self.assertEqual(runtime.fan("pre_llm_call", {})[0]["value"], wanted)
            self.assertEqual(runtime.loaded["ctx_missing"], ["options"])

    def test_a_registration_can_be_given_back_once(self) -> None:
        code = (
            "def register(ctx):\n"
            "    handle = ctx.register_hook('pre_llm_call', print)\n"
            "    handle.dispose(); handle.dispose()\n"
            "    assert not handle.active and handle.kind == 'hook'\n"
        )
        with Runtime(code) as runtime:
            self.assertIsNone(runtime.loaded["error"])
            self.assertEqual([m["method"] for m in runtime.asked].count("dispose"), 1)

    def test_unloading_runs_clean_ups_the_last_one_first(self) -> None:
        code = (
            "import os\n"
            "def note(x):\n"
            "    return lambda: open(os.environ['HERMES_HOME'] + '/out', 'a').write(x)\n"
            "def register(ctx):\n    ctx.on_unload(note('a'))\n    ctx.on_unload(note('b'))\n"
        )
        with Runtime(code) as runtime:
            self.assertEqual(runtime.call("unload", {"key": "p"}), {"errors": []})
            self.assertEqual((runtime.home / "out").read_text(), "ba")

    def test_a_damaged_state_is_kept_and_said(self) -> None:
        code = (
            "def a():\n    CTX.state.data_dir.mkdir(parents=True, exist_ok=True)\n"
            "    CTX.state.path.write_text('{')\n    CTX.state.get('x')\n"
            "def register(ctx):\n    global CTX\n    CTX = ctx\n"
            "    ctx.register_hook('pre_llm_call', a)\n"
        )
        with Runtime(code) as runtime:
            self.assertEqual(runtime.fan("pre_llm_call", {})[0]["error"]["type"], "RuntimeError")


class Lanes(unittest.TestCase):
    """Plugins that hold a single place."""

    CODE = (
        "from agent.memory_provider import MemoryProvider\n"
        "class Mine(MemoryProvider):\n"
        "    name = 'mine'\n"
        "    def is_available(self): return True\n"
        "    def initialize(self, session_id, **k): self.session = session_id\n"
        "    def get_tool_schemas(self): return [{'name': 'recall'}]\n"
        "    def prefetch(self, query, *, session_id=''): return f'{query} in {self.session}'\n"
    )

    def test_a_memory_provider_is_found_with_and_without_register(self) -> None:
        tail = "def register(ctx): ctx.register_memory_provider(Mine())\n"
        for code in (self.CODE, self.CODE + tail):
            with Runtime() as runtime:
                loaded = runtime.load("memory/mine", code, lane="memory", provider="mine")
                facts = loaded["lane"]["memory"]["mine"]
                self.assertEqual((facts["class"], facts["is_available"]), ("Mine", True))
                self.assertEqual(facts["tools_before_initialize"], ["recall"])
                where = {"plugin": "memory/mine", "kind": "memory_provider", "key": "mine"}
                runtime.call("object", {**where, "method": "initialize", "args": ["s1"]})
                answer = runtime.call("object", {**where, "method": "prefetch", "args": ["q"]})
                self.assertEqual(answer, "q in s1")

    def test_a_command_for_the_command_line_is_parsed_here(self) -> None:
        code = (
            "def setup(parser): parser.add_argument('--name', default='x')\n"
            "def run(args):\n    print('hello', args.name)\n    return 3\n"
            "def register(ctx): ctx.register_cli_command('greet', 'greets', setup, run)\n"
        )
        with Runtime(code) as runtime:
            calls = runtime.registered[0]["calls"]
            base = {"command": "greet", "setup": calls["setup"], "handler": calls["call"]}
            answer = runtime.call("cli", {**base, "argv": ["--name", "you"]})
            self.assertEqual(answer, {"code": 3, "out": "hello you\n", "err": ""})
            self.assertEqual(runtime.call("cli", {**base, "argv": ["--odd"]})["code"], 2)


if __name__ == "__main__":
    unittest.main()

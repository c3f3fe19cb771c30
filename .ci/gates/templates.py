"""Render chat templates with transformers, for .ci/gates/templates.

    templates.py FOLDER|FILE… >cases.jsonl

Each template is rendered for each conversation below by the function that
apply_chat_template calls. A line is {template, text, case, messages, tools, args,
special, want | error}. Conversations are the project's own.
"""

import json
import sys
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
WEATHER = {"name": "get_weather", "description": "The weather of a city, \"now\".", "parameters": {
    "type": "object", "properties": {
        "city": {"type": "string", "description": "City & country, e.g. '서울'"},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        "days": {"type": "integer", "minimum": 1}}, "required": ["city"]}}
ALARM = {"name": "set_alarm", "description": "Sets an alarm.", "parameters": {
    "type": "object", "properties": {"hour": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["hour", "tags"]}}
EMPTY = {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": f} for f in (WEATHER, ALARM, EMPTY)]


def call(name, id, **kw):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": kw}}


U, A, S, T = "user", "assistant", "system", "tool"
CASES = [
    ("one", [(U, "Hi there")], None, {}),
    ("system", [(S, "  Be <brief> & \"exact\".\n"), (U, "한국의 수도는?\n\n"), (A, "서울"), (U, " and Japan's? ")], None, {}),
    ("turns", [(U, "a\nb"), (A, "\n c"), (U, "d"), (A, "e\n"), (U, "<|x|> {{ f }} \u00a0")], None, {}),
    ("no-prompt", [(U, "one"), (A, "two")], None, {"add_generation_prompt": False}),
    ("tools", [(S, "Help."), (U, "Weather in 서울?")], TOOLS, {}),
    ("tools-alone", [(U, "Wake me.")], TOOLS[1:2], {}),
    ("call", [(U, "Weather in Paris?"), (A, "", [call("get_weather", "call12345", city="Paris\n\"x\"", days=2)]),
              (T, '{"temp": 21}', "get_weather", "call12345"), (A, "21 degrees."), (U, "Thanks")], TOOLS, {}),
    ("calls", [(S, "Help."), (U, "Both"), (A, "Sure.", [call("get_weather", "abcdefgh1", city="東京", days=1),
                                                      call("set_alarm", "abcdefgh2", hour=7, tags=["a", "é"])]),
               (T, "rain", "get_weather", "abcdefgh1"), (T, "done", "set_alarm", "abcdefgh2")], TOOLS, {}),
    ("think", [(U, "2+2?"), (A, "<think>\nfour\n</think>\n\n4"), (U, "3+3?")], None, {"enable_thinking": True}),
    ("no-think", [(U, "2+2?"), (A, "4"), (U, "3+3?")], None, {"enable_thinking": False, "thinking": False}),
    ("reasoning", [(U, "2+2?"), (A, "4", None, "two and two"), (U, "Sure?"), (A, "Yes", None, "check\n"), (U, "ok")], None, {}),
    ("empty", [(S, ""), (U, ""), (A, ""), (U, "x")], None, {}),
    ("two-users", [(U, "a"), (U, "b")], None, {}),
    ("assistant-first", [(A, "a"), (U, "b")], None, {}),
]


def message(m):
    out = {"role": m[0], "content": m[1]}
    if m[0] == T:
        out["name"], out["tool_call_id"] = m[2], m[3]
    elif len(m) > 2 and m[2]:
        out["tool_calls"] = m[2]
    if m[0] == A and len(m) > 3:
        out["reasoning_content"] = m[3]
    return out


def main():
    files = []
    for p in map(Path, sys.argv[1:]):
        files += sorted(p.rglob("*.jinja")) if p.is_dir() else [p]
    for f in files:
        text = f.read_text(encoding="utf8")
        for name, messages, tools, args in CASES:
            row = {"template": f.name, "text": text, "case": name, "messages": [message(m) for m in messages],
                   "tools": tools, "args": args, "special": SPECIAL}
            a = {"add_generation_prompt": True, **args}
            try:
                out, _ = render_jinja_template([row["messages"]], tools=tools, chat_template=text, **SPECIAL, **a)
                row["want"] = out[0]
            except Exception as e:  # what the template refuses, we must refuse
                row["error"] = f"{type(e).__name__}: {e}"
            print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()

"""What vLLM's parsers (0.19.1) take for tool calls: make/calls.py in its folder
writes ../calls.jsonl. Texts are the project's own."""

import json
import sys
from pathlib import Path

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tool_parsers.glm4_moe_tool_parser import Glm4MoeModelToolParser
from vllm.tool_parsers.hermes_tool_parser import Hermes2ProToolParser
from vllm.tool_parsers.llama_tool_parser import Llama3JsonToolParser
from vllm.tool_parsers.mistral_tool_parser import MistralToolParser
from vllm.tool_parsers.qwen3coder_tool_parser import Qwen3CoderToolParser


class Tokenizer:
    tokens = ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=", "</function>"]

    def get_vocab(self):
        return {t: i for i, t in enumerate(self.tokens)}

    def encode(self, text, add_special_tokens=False):
        return [self.tokens.index(text)]


TOOLS = [{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object", "properties": {
    "s": {"type": "string"}, "i": {"type": "integer"}, "x": {"type": "number"}, "b": {"type": "boolean"}, "o": {"type": "object"},
    "l": {"type": "array"}, "u": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}}}]
H = lambda o: "<tool_call>" + (o if isinstance(o, str) else json.dumps(o, ensure_ascii=False)) + "</tool_call>"
C = lambda **a: {"name": "f", "arguments": a}
JSON_CALLS = [
    C(city="서울"), C(), C(a={"b": [1, {"c": "}"}], "d": "{"}), C(t="nl\n \"q\" \\ 😀"), C(n=1.5, m=None, k=True),
]
TEXTS = {
    Hermes2ProToolParser: [H(c) for c in JSON_CALLS] + [
        "No call.", "Sure. " + H(C(a=1)), H(C(a=1)) + H(C(a=2)), "A\n" + H(C(a=1)) + "\n" + H(C(a=2)) + "\n",
        "<tool_call>\n" + json.dumps(C(a=1)) + "\n</tool_call>", "<tool_call>" + json.dumps(C(a=1)), "<tool_call>" + json.dumps(C(a=1)) + "\n",
        H("{broken"), H('{"name": "f"}'), H('{"arguments": {}}'), "<tool_call>", "<tool_call></tool_call>", H('{"name": "f", "arguments": {"a": 1}'),
        H(json.dumps(C(a=1)) + " x"), H('{"arguments": {"a": 1}, "name": "f"}'), H('{"name":"f","arguments":{"a":1,"b":[1,2]}}'),
        H("[1]"), H('{"name": "f", "arguments": {"a": "\\ud83d\\ude00 \\u00e9"}}'), "a < b </tool_call>",
    ],
    Glm4MoeModelToolParser: [
        "No call.", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>서울</arg_value>\n</tool_call>",
        "Sure.\n<tool_call>f\n<arg_key>i</arg_key>\n<arg_value>3</arg_value>\n<arg_key>s</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
        "<tool_call>f\n<arg_key>o</arg_key>\n<arg_value>{\"a\": [1, 2], \"b\": \"ü\"}</arg_value>\n<arg_key>l</arg_key>\n<arg_value>[1]</arg_value></tool_call>",
        "<tool_call>f\n</tool_call>", "<tool_call>g\n<arg_key>k</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
        "<tool_call>f\n<arg_key>b</arg_key><arg_value>True</arg_value></tool_call><tool_call>f\n<arg_key>b</arg_key><arg_value>false</arg_value></tool_call>",
        "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>line 1\nline \"2\" \\</arg_value>\n</tool_call>", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x",
        "<tool_call>f", "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value> 1.50 </arg_value></tool_call>",
    ],
    MistralToolParser: [
        "No call.", "[TOOL_CALLS][" + json.dumps(C(city="東京"), ensure_ascii=False) + "]", "Hi.[TOOL_CALLS] [" + json.dumps(C(a=1)) + ", " + json.dumps(C(b=[1])) + "]",
        '[TOOL_CALLS][{"name": "f", "arguments": {"a": {"b": "]}"}}, "id": "abc123def"}]', "[TOOL_CALLS]nothing", '[TOOL_CALLS][{"name": "f"', "[TOOL_CALLS]",
    ],
    Llama3JsonToolParser: [
        "No call.", '{"name": "f", "parameters": {"city": "부산"}}', '<|python_tag|>{"name": "f", "parameters": {"a": 1}}',
        '{"name": "f", "parameters": {"a": {"b": "}"}}}; {"name": "g", "arguments": {}}', '{"name": "f"}', "a { b", '{"name": "f", "parameters": {"a": 1}',
        ' {"type": "function", "name": "f", "parameters": {"a": [1, 2]}} ',
    ],
    Qwen3CoderToolParser: [
        "No call.", "<tool_call>\n<function=f>\n<parameter=s>\n서울\n</parameter>\n<parameter=i>\n5\n</parameter>\n</function>\n</tool_call>",
        "Ok\n<tool_call>\n<function=f>\n<parameter=x>1.0</parameter><parameter=b>True</parameter><parameter=o>{\"a\": [1]}</parameter>\n</function>\n</tool_call>",
        "<function=f>\n<parameter=s>\n1\n\n2\n</parameter>\n</function>", "<tool_call>\n<function=f>\n</function>\n</tool_call>",
        "<tool_call>\n<function=g>\n<parameter=k>\n5\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n<parameter=u>\n7\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=f>\n<parameter=s>\nnull\n</parameter>\n<parameter=x>\n2.5\n</parameter>\n<parameter=i>\nmany\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=f>\n<parameter=s>\ncut", "<tool_call>\n<function=f>\n<parameter=s>\na\n<parameter=i>\n4\n</function>\n</tool_call>",
    ],
}
NAMES = {Hermes2ProToolParser: "hermes", Glm4MoeModelToolParser: "glm", MistralToolParser: "mistral", Llama3JsonToolParser: "llama",
         Qwen3CoderToolParser: "qwencode"}


def main():
    request = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "x"}], tools=TOOLS)
    with open(Path(__file__).parent.parent / "calls.jsonl", "w") as out:
        out.write(json.dumps({"tools": TOOLS}) + "\n")
        for cls, texts in TEXTS.items():
            for text in texts:
                try:
                    got = cls(Tokenizer(), request.tools).extract_tool_calls(text, request)
                    row = {"content": got.content or "", "calls": [{"name": c.function.name, "arguments": c.function.arguments} for c in got.tool_calls]}
                except Exception as e:
                    row = {"error": str(e)}
                out.write(json.dumps({"style": NAMES[cls], "text": text} | row, ensure_ascii=False) + "\n")


main()

"""Asks a server with the openai client and checks what comes: client.py BASE_URL.
The server has the demo model. Prints a line for each check; the exit status is 1
where one fails."""

import asyncio
import json
import os
import sys

import openai

failed = 0
client = openai.OpenAI(base_url=sys.argv[1], api_key=os.environ["SERVE_KEY"], max_retries=0, timeout=60)
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


def check(name, ok, shown=""):
    global failed
    failed += not ok
    print(f"{'ok  ' if ok else 'FAIL'} {name:<44} {shown}", flush=True)


def ask(text, **kw):
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], **({"max_tokens": 60, "temperature": 0} | kw))


def raises(kind, f):
    try:
        f()
    except kind as e:
        return str(e)
    return None


models = client.models.list().data
model = models[0].id
check("models.list", len(models) == 1 and client.models.retrieve(model).id == model, model)

r = ask("What is 12+30?")
whole = r.choices[0].message.content
check("chat", whole == "12+30=42. Answer: 42" and r.choices[0].finish_reason == "stop", repr(whole))
check("usage", r.usage.prompt_tokens == 11 and r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens, str(r.usage.completion_tokens))
check("model of the answer", r.model == model and r.object == "chat.completion" and r.id != "")

chunks = list(ask("한국의 수도는 어디입니까?", stream=True, stream_options={"include_usage": True}))
text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
check("stream: Korean, no broken character", text == "한국의 수도는 서울입니다." and "\ufffd" not in text, repr(text))
check("stream: usage in its last chunk", chunks[-1].usage is not None and chunks[-1].usage.completion_tokens > 5 and not chunks[-1].choices, str(len(chunks)) + " chunks")
check("stream: role, finish reason", chunks[0].choices[0].delta.role == "assistant" and [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop")

r = ask("What is the weather in 부산?", tools=TOOLS)
c = (r.choices[0].message.tool_calls or [None])[0]
check("tools", c is not None and c.function.name == "get_weather" and json.loads(c.function.arguments) == {"city": "부산"} and r.choices[0].finish_reason == "tool_calls",
      c and c.function.arguments)
parts = [d for c in ask("What is the weather in 부산?", tools=TOOLS, stream=True) if c.choices for d in c.choices[0].delta.tool_calls or []]
name, arguments = "".join(p.function.name or "" for p in parts), "".join(p.function.arguments or "" for p in parts)
check("tools, streamed", name == "get_weather" and json.loads(arguments) == {"city": "부산"} and all(p.index == 0 for p in parts), arguments)
with client.chat.completions.stream(model=model, messages=[{"role": "user", "content": "Weather for Oslo, please."}], tools=TOOLS, temperature=0, max_tokens=60) as s:
    final = s.get_final_completion()
c = (final.choices[0].message.tool_calls or [None])[0]
check("tools, by the client's own assembly", c is not None and json.loads(c.function.arguments) == {"city": "Oslo"}, c and c.function.arguments)
history = [{"role": "user", "content": "Set an alarm for 7:05."}, {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "set_alarm", "arguments": "{\"hour\": 7}"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "done"}, {"role": "user", "content": "What is 2+2?"}]
r = client.chat.completions.create(model=model, messages=history, tools=TOOLS, max_tokens=30, temperature=0)
check("messages with calls and their answers", r.choices[0].message.content is not None, repr(r.choices[0].message.content))

r = ask("What is 12+30?", logprobs=True, top_logprobs=3)
lp = r.choices[0].logprobs.content
joined = b"".join(bytes(t.bytes) for t in lp).decode()
check("logprobs: bytes of all tokens are the text", joined.startswith(whole) and len(lp) == r.usage.completion_tokens, f"{len(lp)} tokens")
check("logprobs: greedy takes the likeliest of three", all(len(t.top_logprobs) == 3 and t.top_logprobs[0].logprob == t.logprob <= 0 for t in lp), f"{lp[0].logprob:.4f}")
chunks = [c for c in ask("What is 12+30?", logprobs=True, top_logprobs=1, stream=True) if c.choices and c.choices[0].logprobs]
same = [t.logprob for c in chunks for t in c.choices[0].logprobs.content or []]
check("logprobs, streamed: the same", same == [t.logprob for t in lp])

r = ask("What is 12+30?", max_tokens=3)
check("max_tokens", r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 3, repr(r.choices[0].message.content))
r = ask("What is 12+30?", stop=["Answer"])
check("stop", r.choices[0].message.content == "12+30=42. " and r.choices[0].finish_reason == "stop", repr(r.choices[0].message.content))
two = [ask("Describe the durian.", seed=5, temperature=0.9).choices[0].message.content for _ in range(2)]
check("seed", two[0] == two[1], repr(two[0][:30]))

r = client.completions.create(model=model, prompt="In the beginning", max_tokens=8, temperature=0, logprobs=2)
check("completions", len(r.choices[0].text) > 5 and len(r.choices[0].logprobs.tokens) == 8 and len(r.choices[0].logprobs.top_logprobs[0]) == 2, repr(r.choices[0].text))
pieces = "".join(c.choices[0].text for c in client.completions.create(model=model, prompt="In the beginning", max_tokens=8, temperature=0, stream=True) if c.choices)
check("completions, streamed: the same", pieces == r.choices[0].text)
e = client.completions.create(model=model, prompt="In the beginning God", max_tokens=1, temperature=0, logprobs=1, echo=True)
l = e.choices[0].logprobs
check("completions, echo", e.choices[0].text.startswith("In the beginning God") and l.token_logprobs[0] is None and all(x <= 0 for x in l.token_logprobs[1:]), str(len(l.tokens)))
r = client.completions.create(model=model, prompt=[3, 4, 5], max_tokens=2, temperature=0)
check("completions of token ids", r.usage.prompt_tokens == 3)

check("another model is not found", raises(openai.NotFoundError, lambda: client.chat.completions.create(model="other", messages=[{"role": "user", "content": "x"}])) is not None)
m = raises(openai.BadRequestError, lambda: ask("x", max_tokens=5000))
check("too long is a bad request", m is not None, str(m)[:90])
check("a wrong value is a bad request", raises(openai.BadRequestError, lambda: ask("x", top_p=-1)) is not None)
bad = openai.OpenAI(base_url=sys.argv[1], api_key="wrong", max_retries=0)
m = raises(openai.AuthenticationError, lambda: bad.models.list())
check("a wrong key is refused, and not told", m is not None and "wrong" not in m and os.environ["SERVE_KEY"] not in m, str(m)[:60])


async def many():
    a = openai.AsyncOpenAI(base_url=sys.argv[1], api_key=os.environ["SERVE_KEY"], max_retries=0, timeout=120)
    q = [f"What is {i}+{i + 3}?" for i in range(10, 26)]
    got = await asyncio.gather(*(a.chat.completions.create(model=model, messages=[{"role": "user", "content": x}], temperature=0, max_tokens=40) for x in q))
    return q, [r.choices[0].message.content for r in got]


q, got = asyncio.run(many())
alone = [ask(x, max_tokens=40).choices[0].message.content for x in q]
check("16 at once: the same as one by one", got == alone, repr(got[0]))

with client.chat.completions.with_streaming_response.create(model=model, messages=[{"role": "user", "content": "Describe the durian."}], stream=True, max_tokens=200) as s:
    next(s.iter_lines())  # and goes away
check("after a client that went away", ask("What is 12+30?").choices[0].message.content == whole)
print(f"openai {openai.__version__}: {'all checks hold' if not failed else f'{failed} checks fail'}")
sys.exit(failed > 0)

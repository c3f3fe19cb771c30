"""What two arms of a run of gates answered, probe by probe: compare.py RUN.json SESSION

Prints a line a probe: n of m of both, answers that only one passes, and of greedy
probes how many answers are the same to the byte, calls as JSON. The exit status is
0 whatever it finds: this is a report."""

import collections
import json
import sqlite3
import sys
import zlib


def document(payload):
    return json.loads(payload if payload[:1] == b"{" else zlib.decompress(payload))


def said(answer):
    out = []
    for r in answer.get("replies") or []:
        calls = []
        for c in r.get("tool_calls") or []:
            try:
                arguments = json.loads(c["arguments"])
            except ValueError:
                arguments = c["arguments"]
            calls.append((c["name"], json.dumps(arguments, sort_keys=True)))
        out.append((r.get("text", ""), calls, r.get("finish")))
    return out


def alike(a, b):
    """Equal replies. Of one that ends at its budget the last character may be cut:
    U+FFFD for some, nothing for others, who then keep back what came just before."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):
        short, long = sorted((x[0], y[0]), key=len)
        cut = x[2] == y[2] == "length" and long.endswith("\ufffd") and long.startswith(short) and len(long) - len(short) <= 3
        if x[1] != y[1] or not (x[0] == y[0] or cut):
            return False
    return True


run = json.load(open(sys.argv[1]))
db = sqlite3.connect(f"file:{sys.argv[2]}?mode=ro", uri=True)
labels = ["process", "server"]
greedy = {}
for (payload,) in db.execute("select payload from events where kind = 'gates' order by seq desc limit 1"):
    for i, p in enumerate(document(payload)["setup"]["probes"]):
        greedy[i] = p["settings"]["temperature"] == 0 and not p.get("timed")
answers = collections.defaultdict(dict)  # probe, case, pass → arm → passed, what was said
for probe, case, n, arm, passed, payload in db.execute(
        "select a.probe, a.case_id, a.pass, a.arm, a.passed, e.payload from answers a join events e on e.seq = a.seq where not a.replaced"):
    answers[probe, case, n][arm] = (bool(passed), said(document(payload)["result"]["answer"]))
names = dict(db.execute("select id, name from probes where run = (select max(run) from probes)"))
print(f"{'probe':<20} {labels[0]:>10} {labels[1]:>10}  only {labels[0]}  only {labels[1]}  same answer")
total = collections.Counter()
for probe, name in sorted(names.items()):
    pairs = [v for (p, _, _), v in answers.items() if p == probe and 0 in v and 1 in v]
    a, b = sum(v[0][0] for v in pairs), sum(v[1][0] for v in pairs)
    only_a, only_b = sum(v[0][0] and not v[1][0] for v in pairs), sum(v[1][0] and not v[0][0] for v in pairs)
    same = sum(alike(v[0][1], v[1][1]) for v in pairs)
    total.update(a=a, b=b, n=len(pairs), only_a=only_a, only_b=only_b)
    if greedy.get(probe):
        total.update(same=same, greedy=len(pairs))
    print(f"{name:<20} {a:>4} of {len(pairs):<3} {b:>3} of {len(pairs):<3} {only_a:>8} {only_b:>10}   {f'{same} of {len(pairs)}' if greedy.get(probe) else 'sampled':>12}")
print(f"{'all':<20} {total['a']:>4} of {total['n']:<3} {total['b']:>3} of {total['n']:<3} {total['only_a']:>8} {total['only_b']:>10}   {total['same']} of {total['greedy']}")
for arm in run["arms"]:
    i = arm["identity"] or {}
    print(f"  {i.get('kind')}: {i.get('engine')} {i.get('version') or ''}, {arm['tokens']} tokens, {arm['tokens_per_s']:.1f} tokens/s" if arm["answers"] else f"  {arm['candidate']}: nothing")
bad = [c for c in run["checks"] if c["state"] == "failed"]
for c in bad:
    print(f"  check {c['id']} {c.get('candidate', '')}: {c['message']}")

"""What transformers' generate(use_mtp=True) drafts and accepts on the demo model.

    mtp.py MODEL CORPORA OUT.json      (quant/demo/data/model quant/demo/data/corpora.safetensors)

100 prompts from the held-out corpora: 60 conversations up to where the model
answers (20 of problems), 40 beginnings of prose, code and many languages. Greedy, 48 new tokens, no
end token, weights upcast to f32. transformers drafts as many tokens a step as the
config has MTP layers, so k = 1 is the model as it is; for k = 2, 3, 4 the layer is
copied behind itself, each copy with a cache of its own: that is what use_mtp can say
of k > 1, and it is not what a server does that feeds one layer its own states.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.generation.candidate_generator import MTPCandidateGenerator

NEW, ASSISTANT = 48, 2
torch.set_num_threads(1)  # of so small a model, more would wait for each other


def prompts(path):
    out = []
    with safe_open(path, "pt") as f:
        for name, n in ("chat", 40), ("math", 20):  # the first answer of every text, then later ones
            texts = f.get_tensor("eval." + name).tolist()
            ends = [[i + 1 for i, t in enumerate(c) if t == ASSISTANT and 8 <= i < 300] for c in texts]
            found = [(name, c[: e[d]]) for d in range(max(map(len, ends))) for c, e in zip(texts, ends) if d < len(e)]
            out += found[:n]
        for name, n in ("multi", 16), ("prose", 12), ("code", 12):
            t = f.get_tensor("eval." + name)
            for i in range(n):
                out.append((name, t[i % t.shape[0], 100 * (i // t.shape[0]):][: 24 + i].tolist()))
    return out


def folder(model, k, work):
    """The checkpoint with k MTP layers, copies of its one."""
    out = Path(work) / f"k{k}"
    out.mkdir()
    config = json.loads((Path(model) / "config.json").read_text())
    n = config["num_hidden_layers"]
    tensors = {}
    for file in sorted(Path(model).glob("*.safetensors")):
        with safe_open(file, "pt") as f:
            for name in f.keys():
                tensors[name] = f.get_tensor(name)
    for name in list(tensors):
        if name.startswith(f"model.layers.{n}."):
            for i in range(1, k):
                tensors[name.replace(f"layers.{n}.", f"layers.{n + i}.", 1)] = tensors[name].clone()
    config["num_nextn_predict_layers"] = k
    (out / "config.json").write_text(json.dumps(config))
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out, n


def run(path, n, k, texts, plain):
    cls = transformers.Glm4MoeForCausalLM
    for c in (cls, transformers.Glm4MoeModel, transformers.Glm4MoePreTrainedModel):
        c._keys_to_ignore_on_load_unexpected = [rf"model\.layers\.{n + i}.*" for i in range(k)]
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    drafts = []
    get = MTPCandidateGenerator.get_candidates

    def watched(self, input_ids, *a, **kw):
        ids, logits = get(self, input_ids, *a, **kw)
        drafts.append((input_ids.shape[1], ids[0, input_ids.shape[1]:].tolist()))
        return ids, logits

    out = []
    for i, (kind, ids) in enumerate(texts):
        x = torch.tensor([ids])
        common = dict(do_sample=False, max_new_tokens=NEW, eos_token_id=None, pad_token_id=0, attention_mask=torch.ones_like(x))
        drafts.clear()
        MTPCandidateGenerator.get_candidates = watched
        spec = model.generate(x, use_mtp=True, **common)[0, len(ids):].tolist()
        MTPCandidateGenerator.get_candidates = get
        if i == len(plain):  # one pass over all of it says what greedy decoding takes without drafts
            with torch.no_grad():
                logits = model(torch.tensor([ids + spec])).logits[0, len(ids) - 1:-1]
            tops = torch.topk(logits, 2).values
            plain.append((logits.argmax(-1).tolist(), float((tops[:, 0] - tops[:, 1]).min())))
        new, gap = plain[i]
        whole = ids + new
        steps = [(at, d) for at, d in drafts if d]
        said = []
        for at, d in steps:
            right = 0
            while right < len(d) and at + right < len(whole) and d[right] == whole[at + right]:
                right += 1
            said.append({"at": at, "draft": d, "accepted": right})
        out.append({"kind": kind, "prompt": ids, "new": new, "equal": spec == new, "gap": gap, "steps": said, "forwards": len(drafts)})
    return out


def write(dest, result):
    lines = [json.dumps(p, separators=(",", ":")) for p in result["prompts"]]
    head = json.dumps({k: v for k, v in result.items() if k != "prompts"}, separators=(",", ":"))[:-1]
    Path(dest).write_text(head + ',"prompts":[\n' + ",\n".join(lines) + "\n]}\n")


def main():
    model, corpora, dest = sys.argv[1:]
    texts = prompts(corpora)
    work, plain = tempfile.mkdtemp(), []
    result = {"peer": f"transformers {transformers.__version__}, torch {torch.__version__}, f32, eager, CPU", "new_tokens": NEW, "totals": []}
    try:
        for k in 1, 2, 3, 4:
            path, n = folder(model, k, work)
            got = run(path, n, k, texts, plain)
            drafted = sum(len(s["draft"]) for g in got for s in g["steps"])
            accepted = sum(s["accepted"] for g in got for s in g["steps"])
            by = [sum(s["accepted"] > i for g in got for s in g["steps"]) for i in range(k)]
            total = {"k": k, "steps": sum(len(g["steps"]) for g in got), "drafted": drafted, "accepted": accepted, "by_position": by,
                     "lossless": sum(g["equal"] for g in got)}
            result["totals"].append(total)
            print(total, "smallest gap", min(g["gap"] for g in got), flush=True)
            if k == 1:
                result["prompts"] = [{"kind": g["kind"], "prompt": g["prompt"], "new": g["new"], "gap": round(g["gap"], 6),
                                      "drafts": [s["draft"][0] for s in g["steps"]],
                                      "accepted": "".join(str(s["accepted"]) for s in g["steps"])} for g in got]
            write(dest, result)
    finally:
        shutil.rmtree(work)


main()

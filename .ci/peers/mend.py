#!/usr/bin/env python3
"""Breaks an export of the demo in each way that mend knows, mends it, and has
transformers load the result: logits must be those of the export before it was broken.

    .ci/peers/mend.py QUANTSCOPE [FOLDER]

QUANTSCOPE is the program. Needs torch, transformers, compressed-tensors, safetensors.
"""
import json, shutil, subprocess, sys, tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

quantscope, work = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
here = Path(__file__).resolve().parents[2]


def run(*args, good=(0,)):
    r = subprocess.run([quantscope, *map(str, args)], capture_output=True, text=True)
    if r.returncode not in good:
        sys.exit(f"{args}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    return r


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data, indent=2) + "\n")


def logits(folder):
    torch.manual_seed(0)  # transformers keeps experts of this family fused and makes its own where an export has them one by one
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    ids = torch.arange(8, 72).reshape(1, -1)
    with torch.no_grad():
        return model(ids).logits.float()


source = work / "source"
shutil.copytree(here / "quant/demo/data/model", source, dirs_exist_ok=True)
(source / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")
processor = {"image_processor": {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136}, "processor_class": "Qwen2VLProcessor"}
(source / "processor_config.json").write_text(json.dumps(processor))
good = work / "good"
run("quantize", source, "--variant", "int4-g32-sym", "--targets", "*self_attn*,*layers.0.mlp*", "--out", good, "--layout", "compressed-tensors", "--compat", "ct", "--session", work / "s.qscope")
reference = logits(good)


def drop_mtp(d):
    index = json.loads((d / "model.safetensors.index.json").read_text())
    for f in sorted(set(index["weight_map"].values())):
        kept = {k: v for k, v in load_file(d / f).items() if ".layers.5." not in k}
        save_file(kept, d / f, metadata={"format": "pt"})
    unindex(d)


def unindex(d):
    edit(d / "model.safetensors.index.json", lambda ix: [ix["weight_map"].pop(k) for k in list(ix["weight_map"]) if ".layers.5." in k])


def undeclare(d):
    edit(d / "config.json", lambda c: c.pop("num_nextn_predict_layers"))


def unignore(d):
    edit(d / "config.json", lambda c: c["quantization_config"].__setitem__("ignore", [e for e in c["quantization_config"]["ignore"] if "layers.5" not in e.replace("\\", "")]))


breaks = {
    "MTP tensors dropped": drop_mtp,
    "MTP tensors not in the index": unindex,
    "MTP layers not declared": undeclare,
    "MTP not among the exceptions": unignore,
    "tokenizer truncates": lambda d: edit(d / "tokenizer.json", lambda t: t.__setitem__("truncation", {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0})),
    "no processor configs": lambda d: (d / "processor_config.json").unlink(),
    "no chat template": lambda d: (d / "chat_template.jinja").unlink(),
}
breaks["all of these"] = lambda d, each=tuple(v for k, v in breaks.items() if k != "MTP tensors not in the index"): [b(d) for b in each]
failed = False
for name, break_it in breaks.items():
    broken, mended = work / "broken", work / "mended"
    for d in (broken, mended):
        shutil.rmtree(d, ignore_errors=True)
    shutil.copytree(good, broken)
    break_it(broken)
    lint = run("lint", broken, "--json", good=(0, 1))
    before = [f["id"] for f in json.loads(lint.stdout)["findings"] if f["severity"] == "error"]
    run("mend", broken, "--from", source, "--to", mended)
    after = [f["id"] for f in json.loads(run("lint", mended, "--json", good=(0, 1)).stdout)["findings"]]
    same = torch.equal(logits(mended), reference)
    limit = AutoTokenizer.from_pretrained(mended).backend_tokenizer.truncation
    pictures = json.loads((mended / "preprocessor_config.json").read_text())["image_processor_type"]
    ok = same and limit is None and pictures == "Qwen2VLImageProcessor" and (mended / "chat_template.jinja").exists()
    failed |= not ok or bool(after)
    print(f"{name:32} errors before {','.join(sorted(set(before))) or 'none'}; after: {','.join(after) or 'no finding'}; logits {'equal' if same else 'DIFFER'}")
sys.exit(failed)

"""Makes hessians.json: what transformers says goes into linear maps of the demo.

    python hessians.py ../../../quant/demo/data > hessians.json

The model runs in f32 on eight chunks of its calibration text; the sums XᵀX are f64.
Of each the trace, the Frobenius norm and the elements of a few rows and columns are
kept. Made with transformers 5.17 and torch 2.10 on CPU.
"""
import json, sys
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

CHUNKS, LAYER, EXPERT = 8, 3, 5
data = sys.argv[1]
model = AutoModelForCausalLM.from_pretrained(data + "/model", dtype=torch.float32, attn_implementation="eager").eval()
ids = load_file(data + "/corpora.safetensors")["calib"][:CHUNKS].long()

seen = {}
routed = {}


def keep(name):
    def hook(_, args):
        x = args[0].detach()
        seen.setdefault(name, []).append(x.reshape(-1, x.shape[-1]).double())
    return hook


layer = model.model.layers[LAYER]
layer.self_attn.q_proj.register_forward_pre_hook(keep("q"))
layer.self_attn.o_proj.register_forward_pre_hook(keep("o"))
layer.mlp.gate.register_forward_pre_hook(keep("router"))
layer.mlp.shared_experts.down_proj.register_forward_pre_hook(keep("shared down"))
model.model.layers[0].mlp.down_proj.register_forward_pre_hook(keep("dense down"))
model.lm_head.register_forward_pre_hook(keep("head"))


def experts(module, args):
    x, index = args[0], args[1]
    rows = (index == EXPERT).any(-1)
    gate, up = torch.nn.functional.linear(x[rows], module.gate_up_proj[EXPERT]).chunk(2, dim=-1)
    seen.setdefault("expert down", []).append((module.act_fn(gate) * up).double())
    counts = torch.bincount(index.flatten(), minlength=module.num_experts)
    routed["counts"] = (routed.get("counts", 0) + counts)


layer.mlp.experts.register_forward_pre_hook(experts)
with torch.no_grad():
    for chunk in ids:
        model(chunk[None])

out = {"chunks": CHUNKS, "layer": LAYER, "expert": EXPERT, "counts": routed["counts"].tolist(), "inputs": {}}
for name, parts in seen.items():
    x = torch.cat(parts)
    h = x.T @ x
    at = list(range(0, h.shape[0], max(h.shape[0] // 6, 1)))
    out["inputs"][name] = {
        "rows": x.shape[0], "columns": h.shape[0], "trace": h.trace().item(), "norm": h.norm().item(),
        "at": at, "h": [[h[i, j].item() for j in at] for i in at],
    }
json.dump(out, sys.stdout, indent=1)
print()

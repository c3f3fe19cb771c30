"""Small random checkpoints and what transformers computes of them, for the scripts beside.

  python deepseek_v2.py, and so on

Weights are bf16 numbers, the passes f32 on one thread with eager attention. A golden
is the folder ../<name> and the file ../<name>.expected.safetensors, whose arrays are
named as those of all golden models: hidden.i is the
input of layer i, final_norm follows the final norm (sequence 0), expert_ids ascend.
Made with transformers 5.24 and torch 2.15 on a CPU.
"""
import json, pathlib
import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent.parent
TOKENS = (2, 40)
torch.set_num_threads(1)


def fill(model, seed, zero_centred=False, quiet=1):
    """Weights that make attention and routers choose: norms near 1 (or 1 + w near 1), what is added to the stream times quiet."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if "correction_bias" in n]:
            x = torch.randn(p.shape, generator=g)
            if "norm" in name:
                x = 0.2 * x + (0 if zero_centred else 1)
            elif "correction_bias" in name:
                x = 0.05 * x
            elif "embed_tokens" in name:
                x = 0.7 * x
            elif p.dim() == 1:
                x = 0.1 * x
            else:
                x = x * 1.6 * p.shape[-1] ** -0.5
            if "o_proj" in name or "down_proj" in name:
                x = x * quiet
            p.copy_(x.to(torch.bfloat16))


def tokens(seed, vocab, shape=TOKENS):
    return torch.randint(0, vocab, shape, generator=torch.Generator().manual_seed(seed))


def run(model, layers, ids, routers):
    """All arrays of a golden. routers gives (layer, logits, ids, weights) of what hooks saw."""
    with torch.no_grad():
        out = model(input_ids=ids, output_hidden_states=True, use_cache=False)
    arrays = {"input_ids": ids.to(torch.int32), "logits": out.logits}
    states = []
    hooks = [l.register_forward_pre_hook(lambda m, a, k: states.append((a[0] if a else k["hidden_states"]).clone()), with_kwargs=True) for l in layers]
    hooks.append(layers[-1].register_forward_hook(lambda m, a, o: states.append((o[0] if isinstance(o, tuple) else o).clone())))
    norm = model.get_decoder().norm.register_forward_hook(lambda m, a, o: arrays.__setitem__("final_norm", o[:1].clone()))
    routers.clear()
    with torch.no_grad():
        model(input_ids=ids, use_cache=False)
    for h in hooks + [norm]:
        h.remove()
    for i, x in enumerate(states):
        arrays[f"hidden.{i}"] = x[:1]
    b, n = ids.shape
    for layer, (logits, weights, chosen) in routers.items():
        order = chosen.argsort(-1)
        arrays[f"layer{layer}.router_logits"] = logits.reshape(b, n, -1)
        arrays[f"layer{layer}.expert_ids"] = chosen.gather(-1, order).to(torch.int32).reshape(b, n, -1)
        arrays[f"layer{layer}.expert_weights"] = weights.gather(-1, order).reshape(b, n, -1)
    return arrays


def save(name, arrays):
    save_file({k: (v if v.dtype == torch.int32 else v.float()).contiguous().clone() for k, v in arrays.items()}, HERE / f"{name}.expected.safetensors")


def config(name, file, value):
    (HERE / name / file).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")

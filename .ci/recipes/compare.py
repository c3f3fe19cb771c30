#!/usr/bin/env python3
"""Has other tools take exported recipes and compares, module by module, what they select
with the plan.

    .ci/recipes/compare.py QUANTSCOPE [--llama-quantize PROGRAM] [--out FILE]

QUANTSCOPE is the program. Needs torch, llm-compressor, compressed-tensors, and for their
rows gptqmodel, auto-round, mlx and mlx-lm; a tool that cannot be imported is said.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

p = argparse.ArgumentParser()
p.add_argument("quantscope")
p.add_argument("--llama-quantize")
p.add_argument("--checkpoint", default="demo")
args = p.parse_args()
work = Path(tempfile.mkdtemp())


def run(*a, good=(0,)):
    r = subprocess.run([args.quantscope, *map(str, a)], capture_output=True, text=True)
    if r.returncode not in good:
        raise RuntimeError(f"{' '.join(map(str, a))}: exit {r.returncode}: {r.stderr.strip()}")
    return r.stdout


class Router(torch.nn.Module):  # as transformers 5 has it: a parameter, no Linear
    def __init__(self, shape):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(shape, device="meta"))


def tree():
    """A model of the checkpoint's own module names and shapes, without memory."""
    report = json.loads(run("inspect", args.checkpoint, "--tensors", "--json"))
    root = torch.nn.Module()
    root.config = None
    for t in report["list"] if "list" in report else report["tensors"]:
        name, shape = t["name"], t["shape"]
        if not name.endswith(".weight"):
            continue
        parts = name[: -len(".weight")].split(".")
        at = root
        for part in parts[:-1]:
            if part not in dict(at.named_children()):
                at.add_module(part, torch.nn.Module())
            at = getattr(at, part)
        if len(shape) == 1:
            leaf = torch.nn.RMSNorm(shape[0], device="meta")
        elif "embed" in parts[-1]:
            leaf = torch.nn.Embedding(*shape, device="meta")
        elif parts[-2:] == ["mlp", "gate"]:
            leaf = Router(shape)
        else:
            leaf = torch.nn.Linear(shape[1], shape[0], bias=False, device="meta")
        at.add_module(parts[-1], leaf)
    return root


def scheme_of_args(w):
    kind, bits, strategy = getattr(w.type, "value", w.type), w.num_bits, getattr(w.strategy, "value", w.strategy)
    if kind == "float":
        return {(4, "tensor_group"): "nvfp4", (4, "group"): "mxfp4", (8, "tensor"): "fp8", (8, "channel"): "fp8-channel", (8, "block"): "fp8-block128"}[bits, strategy]
    group = "channel" if strategy == "channel" else f"g{w.group_size}"
    return f"int4-{group}" + ("-sym" if w.symmetric else "")


def of_schemes(model):
    got = {}
    for name, m in model.named_modules():
        s = getattr(m, "quantization_scheme", None)
        if s is not None and s.weights is not None:
            got[name] = scheme_of_args(s.weights)
    return got


def llm_compressor(text):
    from llmcompressor.recipe import Recipe

    recipe = Recipe.create_instance(text)
    model = tree()
    for m in recipe.modifiers:
        m.initialize_quantization(model)
    return of_schemes(model)


def compressed_tensors(text):
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config

    config = json.loads(text)
    config["quantization_status"] = "initialized"
    model = tree()
    apply_quantization_config(model, QuantizationConfig.model_validate(config))
    return of_schemes(model)


def gptqmodel(text):
    from gptqmodel.quantization.config import dynamic_get

    config = json.loads(text)
    got = {}
    for name, m in tree().named_modules():
        in_layers = re.match(r"model\.layers\.([0-4])\.", name)  # what it walks through: decoder layers
        if not isinstance(m, torch.nn.Linear) or not (in_layers or config["lm_head"] and name == "lm_head"):
            continue
        if dynamic_get(config["dynamic"], name) is False:
            continue
        bits, group, sym = (dynamic_get(config["dynamic"], name, k, config[k]) for k in ("bits", "group_size", "sym"))
        assert bits == 4
        got[name] = f"int4-{'channel' if group == -1 else f'g{group}'}" + ("-sym" if sym else "")
    return got


def autoround(text):
    from auto_round.compressors.config_resolution import ResolvedScheme
    from auto_round.compressors.layer_config_resolver import resolve_layer_config
    from auto_round.schemes import preset_name_to_scheme

    model = tree()
    config = {k: dict(v, group_size=tuple(v["group_size"]) if isinstance(v.get("group_size"), list) else v.get("group_size")) for k, v in json.loads(text).items()}
    for v in config.values():
        if v["group_size"] is None:
            del v["group_size"]
    scheme = ResolvedScheme.from_scheme(preset_name_to_scheme("W4A16"), preset_name="W4A16")
    resolved = resolve_layer_config(model=model, scheme=scheme, layer_config=config, scale_dtype=torch.float16, supported_types=(torch.nn.Linear,), inner_supported_types=(), quant_block_list=None, quant_lm_head=True)
    got = {}
    for name, c in resolved.items():
        if c["bits"] >= 16:
            continue
        group, typ = c["group_size"], c["data_type"]
        if typ.startswith("nv_fp"):
            got[name] = "nvfp4"
        elif typ.startswith("mx_fp"):
            got[name] = "mxfp4"
        elif typ == "fp":
            got[name] = {0: "fp8", -1: "fp8-channel"}.get(group if not isinstance(group, (tuple, list)) else None, "fp8-block128")
        else:
            got[name] = f"int4-{'channel' if group == -1 else f'g{group}'}" + ("-sym" if c["sym"] else "")
    return got


def mlx(text):
    import mlx.core  # noqa: F401
    import mlx.nn as nn
    from mlx.utils import tree_flatten  # noqa: F401

    config = json.loads(text)
    q = config["quantization"]

    class Switch(nn.Module):  # of mlx-lm: all experts of a projection
        def __init__(self, experts, out, inp):
            super().__init__()
            self.weight = mlx.core.zeros((experts, out, inp))

        def to_quantized(self, group_size, bits, mode="affine", **_):
            s = nn.Module()
            s.said = (group_size, bits, mode)
            return s

    class Matrix(Switch):
        def __init__(self, out, inp):
            nn.Module.__init__(self)
            self.weight = mlx.core.zeros((out, inp))

    leaves, experts = {}, {}
    for name, m in tree().named_modules():
        if not isinstance(m, (torch.nn.Linear, torch.nn.Embedding, Router)):
            continue
        path = re.sub(r"\.experts\.\d+\.", ".switch_mlp.", name)
        experts.setdefault(path, []).append(name)
        leaves[path] = Switch(16, *m.weight.shape) if path != name else Matrix(*m.weight.shape)
    got = {}
    for path, leaf in leaves.items():
        holder = nn.Module()
        holder.leaf = leaf
        # mlx-lm's predicate, with its first rule, which is about the config alone.
        nn.quantize(holder, group_size=q["group_size"], bits=q["bits"], mode=q["mode"], class_predicate=lambda p, m: q[path] if path in q else hasattr(m, "to_quantized"))
        if hasattr(holder.leaf, "said"):
            group, bits, mode = holder.leaf.said
            for name in experts[path]:
                got[name] = mode if mode != "affine" else f"int4-g{group}"
    return got


def modelopt(text):
    import fnmatch

    q = json.loads(text)["quantization"]
    words = {"W4A16_NVFP4": "nvfp4", "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8-channel", "FP8_PB_WO": "fp8-block128"}
    if "quantized_layers" in q:
        return {k: words[v["quant_algo"]] for k, v in q["quantized_layers"].items()}
    linear = [n for n, m in tree().named_modules() if isinstance(m, torch.nn.Linear)]
    return {n: words[q["quant_algo"]] for n in linear if not any(fnmatch.fnmatch(n, p) for p in q["exclude_modules"])}


def tensor_types(text):
    if not args.llama_quantize:
        raise ImportError("--llama-quantize names the program")
    gguf, types = work / "m.gguf", work / "types.txt"
    types.write_text(text)
    if not gguf.exists():
        run("quantize", args.checkpoint, "--layout", "gguf", "--variant", "bf16", "--out", gguf)
    r = subprocess.run([args.llama_quantize, "--dry-run", "--tensor-type-file", types, gguf, "q8_0"], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr[-300:])
    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
             "ffn_up_shexp": "mlp.shared_experts.up_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj",
             "ffn_gate_exps": "mlp.experts.{}.gate_proj", "ffn_up_exps": "mlp.experts.{}.up_proj", "ffn_down_exps": "mlp.experts.{}.down_proj"}
    words = {"nvfp4": "nvfp4", "mxfp4": "mxfp4", "q4_0": "int4-g32-sym", "q4_1": "int4-g32"}
    got = {}
    for name, typ in re.findall(r"\] +(\S+) .*-> .*\((\w+)\)", r.stdout + r.stderr):
        if typ == "bf16":
            continue
        if name == "output.weight":
            got["lm_head"] = words[typ]
            continue
        if name.count(".") != 3:
            got[name] = typ  # of no module that a recipe names
            continue
        _, layer, part, _ = name.split(".")
        for e in range(16) if part.endswith("_exps") else [0]:
            got[f"model.layers.{layer}.{names[part].format(e)}"] = words[typ]
    return got


recipes = {
    "moe-nvfp4": None,
    "mixed-nvfp4-fp8": None,
    "int4-g128": None,
    "int4-sym-two": "groups:\n  - scheme: int4-g128-sym\n    methods: [gptq]\n    targets: ['*.layers.[0-4].mlp.experts.*', '*.layers.[0-4].mlp.shared_experts.*', '*layers.0.mlp.*']\n"
                    "  - scheme: int4-g32-sym\n    methods: [gptq]\n    targets: ['*.layers.[0-4].self_attn.?_proj.weight']\n",
    "nvfp4-int4-g32": "groups:\n  - scheme: nvfp4\n    targets: ['*.layers.[0-4].mlp.experts.*']\n  - scheme: int4-g32\n    targets: ['*.layers.[0-4].self_attn.?_proj.weight']\n",
    "fp8-tiles": "groups:\n  - scheme: fp8-block128\n    targets: ['*.layers.[0-4].mlp.experts.*', '*.layers.[0-4].self_attn.[qo]_proj.weight']\n",
}
tools = {"llm-compressor": llm_compressor, "compressed-tensors": compressed_tensors, "modelopt": modelopt, "tensor-type-file": tensor_types, "gptqmodel": gptqmodel, "autoround": autoround, "mlx": mlx}
failed = False
for recipe, text in recipes.items():
    spec = recipe
    if text:
        spec = work / f"{recipe}.yaml"
        spec.write_text(text)
    for tool, take in tools.items():
        out = work / f"{recipe}.{tool}"
        try:
            doc = json.loads(run("recipe", "export", args.checkpoint, "--recipe", spec, "--format", tool, "--json"))
        except RuntimeError as e:
            print(f"{recipe:16} {tool:19} cannot be said: {str(e).split(': ', 3)[-1][:110]}")
            continue
        want = {m["matrix"].removesuffix(".weight"): m["scheme"] for m in doc["modules"] if m["scheme"]}
        try:
            out.write_text(doc["text"])
            got = take(doc["text"])
        except ImportError as e:
            print(f"{recipe:16} {tool:19} not here: {e}")
            failed = True
            continue
        differ = sorted(n for n in want.keys() | got.keys() if want.get(n) != got.get(n))
        failed |= bool(differ)
        print(f"{recipe:16} {tool:19} {len(want)} planned, {len(got)} selected, {len(differ)} differ {differ[:3] or ''}")
sys.exit(failed)

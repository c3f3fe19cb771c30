#!/usr/bin/env python3
"""Writes what MLX stores and what it dequantizes it to: quant/layout/testdata/golden/mlx.safetensors
and the model in analysis/candidate/testdata/mlx.

    mlxvectors.py vectors FILE
    mlxvectors.py model SOURCE DIR     SOURCE is a small qwen3_moe; DIR gets mlx_lm's conversion, and the SHA-256 of each
                                matrix that mlx dequantizes it to, in f32

Needs mlx[cpu] 0.32 and mlx-lm 0.32."""
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

mx.set_default_device(mx.cpu)
ROWS, COLS = 3, 128


def raw(a):
    """An array in a type that numpy knows: bf16 as its bits."""
    if a.dtype == mx.bfloat16:
        return np.array(a.view(mx.uint16))
    return np.array(a)


def f32(a):
    return np.array(a.astype(mx.float32))


def vectors(path):
    rng = np.random.default_rng(20261130)
    w = rng.standard_normal((ROWS, COLS)).astype(np.float32)
    w[0, :32] = 0
    w[1, :64] = 0.25  # one value: a scale of next to nothing
    w[2, 5] = 300
    out = {}
    for name, dtype in (("f16", mx.float16), ("bf16", mx.bfloat16), ("f32", mx.float32)):
        for bits in (1, 2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128):
                q, s, b = mx.quantize(mx.array(w).astype(dtype), group_size=group, bits=bits)
                d = mx.dequantize(q, s, b, group_size=group, bits=bits)
                at = f"affine.{name}.{bits}.{group}."
                out |= {at + "weight": raw(q), at + "scales": raw(s), at + "biases": raw(b), at + "dequant": f32(d)}
    for mode in ("mxfp4", "nvfp4", "mxfp8"):
        q, s = mx.quantize(mx.array(w), mode=mode)
        d = mx.dequantize(q, s, mode=mode, dtype=mx.float32)
        out |= {mode + ".weight": raw(q), mode + ".scales": raw(s), mode + ".dequant": f32(d)}
    g = mx.array(float(np.abs(w).max()))
    q, s = mx.quantize(mx.array(w), mode="nvfp4", global_scale=g)
    d = mx.dequantize(q, s, mode="nvfp4", global_scale=g, dtype=mx.float32)
    out |= {"global.weight": raw(q), "global.scales": raw(s), "global.global_scale": raw(g), "global.dequant": f32(d)}
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, path)


def model(source, out):
    import json

    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    def predicate(path, module, *_):
        own = {
            "model.layers.1.self_attn.q_proj": {"group_size": 32, "bits": 6},
            "model.layers.1.mlp.switch_mlp.gate_proj": {"group_size": 32, "bits": 8, "mode": "mxfp8"},
            "model.layers.1.mlp.switch_mlp.up_proj": {"group_size": 16, "bits": 4, "mode": "nvfp4", "global_scale": True},
            "model.layers.0.mlp.switch_mlp.up_proj": {"group_size": 32, "bits": 4, "mode": "mxfp4"},
            "lm_head": {"group_size": 64, "bits": 3},
        }
        if path.endswith("mlp.gate") or not hasattr(module, "to_quantized") or module.weight.shape[-1] % 32:
            return False
        return own.get(path, True)

    config = json.loads((Path(source) / "config.json").read_text())
    config |= {"num_experts": config["num_local_experts"], "rope_theta": config["rope_parameters"]["rope_theta"]}
    with tempfile.TemporaryDirectory() as tmp:  # a config as mlx_lm wants it
        for name in os.listdir(source):
            if name != "config.json":
                os.symlink(os.path.abspath(os.path.join(source, name)), os.path.join(tmp, name))
        (Path(tmp) / "config.json").write_text(json.dumps(config))
        net, config = load_model(Path(tmp))
    net, config = quantize_model(net, config, 32, 4, quant_predicate=predicate)
    save_model(out, net)
    save_config(config, Path(out) / "config.json")
    net, _ = load_model(Path(out))
    twin = {}
    for path, m in net.named_modules():
        if not hasattr(m, "scales"):
            continue
        kept = dict(m.items())
        how = dict(group_size=m.group_size, bits=m.bits, mode=m.mode)
        if kept.get("global_scale") is not None:  # one an expert
            d = mx.stack([mx.dequantize(w, s, global_scale=g, dtype=mx.float32, **how) for w, s, g in zip(kept["weight"], kept["scales"], kept["global_scale"])])
        else:
            d = mx.dequantize(kept["weight"], kept["scales"], kept.get("biases"), **how)
        twin[path] = hashlib.sha256(np.ascontiguousarray(f32(d)).tobytes()).hexdigest()
    (Path(out) / "dequantized.sha256.json").write_text(json.dumps(twin, indent=1) + "\n")


if __name__ == "__main__":
    {"vectors": vectors, "model": model}[sys.argv[1]](*sys.argv[2:])

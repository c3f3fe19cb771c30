"""Recompute an NVFP4 export of the demo model with other people's libraries.

    exports.py modelopt SOURCE EXPORT
    exports.py compressed-tensors SOURCE EXPORT [--f32]
    exports.py load SOURCE EXPORT

The first two compute every weight, block scale and global scale of EXPORT from
the weights in SOURCE with nvidia-modelopt, or with llm-compressor's arithmetic
in compressed-tensors (--f32: from the weights as f32), and compare bits. Global
scales are taken over the projections that a server fuses, as both libraries'
exporters do. "load" loads EXPORT with transformers and compares its logits with
those of the same model with the dequantized weights put into SOURCE's.
Prints one line of figures; the exit status is 1 where something differs.
"""

import json
import re
import sys
from pathlib import Path

import torch
from safetensors import safe_open

FUSED = [("gate_proj", "up_proj"), ("q_proj", "k_proj", "v_proj")]


def tensors(folder):
    """Every tensor of a checkpoint by name."""
    out = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as f:
            for name in f.keys():
                out[name] = f.get_tensor(name)
    return out


def group(module, modules):
    """The quantized modules that share a global scale with this one."""
    parent, _, last = module.rpartition(".")
    for names in FUSED:
        if last in names:
            return [m for n in names if (m := f"{parent}.{n}") in modules]
    return [module]


def same(a, b):
    """Equal dtype, shape and bits."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(
        a.contiguous().flatten().view(torch.uint8), b.contiguous().flatten().view(torch.uint8))


def modelopt(source, export):
    from modelopt.torch.quantization.qtensor import NVFP4QTensor

    modules = sorted(n.removesuffix(".weight_scale_2") for n in export if n.endswith(".weight_scale_2"))
    for m in modules:
        amax = torch.stack([source[f"{g}.weight"].float().abs().amax() for g in group(m, set(modules))]).amax()
        scale_2 = (amax / (6.0 * 448.0)).float()
        packed, scale, got_2 = NVFP4QTensor.quantize(source[f"{m}.weight"], 16, weights_scaling_factor_2=scale_2)
        yield m, {"weight": packed._quantized_data, "weight_scale": scale, "weight_scale_2": got_2}


def compressed_tensors(source, export, f32):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme, preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    scheme = preset_name_to_scheme("NVFP4A16", ["Linear"])
    compressor = BaseCompressor.load_from_registry("nvfp4-pack-quantized")
    kind = type(compressor) if not isinstance(compressor, type) else compressor
    modules = sorted(n.removesuffix(".weight_packed") for n in export if n.endswith(".weight_packed"))
    load = lambda m: source[f"{m}.weight"].float() if f32 else source[f"{m}.weight"]
    for m in modules:
        w = load(m)
        lows, highs = zip(*[(x.amin(), x.amax()) for x in map(load, group(m, set(modules)))])
        gparam = torch.stack([generate_gparam(a, b) for a, b in zip(lows, highs)]).amin(0)
        blocks = w.unflatten(-1, (-1, 16))
        scale, _ = calculate_qparams(blocks.amin(-1), blocks.amax(-1), scheme.weights, global_scale=gparam)
        state = {"weight": w, "weight_scale": scale, "weight_global_scale": gparam}
        out = kind.compress(state, scheme)
        yield m, {k: out[k] for k in ("weight_packed", "weight_scale", "weight_global_scale")}


def compare(results, export):
    """Count what is equal; every module that differs is named."""
    modules, fields, wrong = 0, {}, []
    for module, want in results:
        modules += 1
        for field, tensor in want.items():
            got = export[f"{module}.{field}"]
            ok = same(got.flatten(), tensor.detach().flatten()) and got.numel() == tensor.numel()
            fields[field] = fields.get(field, 0) + ok
            if not ok:
                wrong.append(f"{module}.{field}")
    print(f"{modules} modules; equal bit for bit: " + ", ".join(f"{k} {v}" for k, v in fields.items()))
    for name in wrong[:10]:
        print(f"differs: {name}")
    return not wrong and modules > 0


def load(source_dir, export_dir):
    from transformers import AutoModelForCausalLM

    ids = torch.randint(0, 1024, (2, 64), generator=torch.Generator().manual_seed(1))
    export = tensors(export_dir)
    model = AutoModelForCausalLM.from_pretrained(export_dir, dtype=torch.float32)
    with torch.no_grad():
        got = model(ids).logits
    source = tensors(source_dir)
    plain = {k: v.float() for k, v in source.items()}
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    count = 0
    for name, packed in export.items():
        if not name.endswith(".weight_packed"):
            continue
        m = name.removesuffix(".weight_packed")
        codes = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
        scale = export[f"{m}.weight_scale"].float() / export[f"{m}.weight_global_scale"].float()
        plain[f"{m}.weight"] = table[codes.long()] * scale.repeat_interleave(16, -1)
        count += 1
    from safetensors.torch import save_file
    import tempfile, shutil
    with tempfile.TemporaryDirectory() as tmp:
        for file in Path(source_dir).glob("*.json"):
            if "index" not in file.name:
                shutil.copy(file, tmp)
        save_file({k: v.contiguous() for k, v in plain.items()}, f"{tmp}/model.safetensors", metadata={"format": "pt"})
        reference = AutoModelForCausalLM.from_pretrained(tmp, dtype=torch.float32)
    with torch.no_grad():
        want = reference(ids).logits
    base = AutoModelForCausalLM.from_pretrained(source_dir, dtype=torch.float32)
    with torch.no_grad():
        bf16 = base(ids).logits
    worst = (got - want).abs().max().item()
    print(f"{count} modules dequantized; logits: largest difference {worst:.3g} to the dequantized weights, "
          f"{(bf16 - want).abs().max().item():.3g} between those and the source")
    return worst <= 1e-3


def main():
    what, source_dir, export_dir = sys.argv[1:4]
    if what == "load":
        return load(source_dir, export_dir)
    source, export = tensors(source_dir), tensors(export_dir)
    if what == "modelopt":
        return compare(modelopt(source, export), export)
    return compare(compressed_tensors(source, export, "--f32" in sys.argv), export)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

"""Recompute an NVFP4 export of the demo model with other people's libraries.

    exports.py modelopt SOURCE EXPORT
    exports.py compressed-tensors SOURCE EXPORT [--f32]
    exports.py dense FOLDER
    exports.py load SOURCE EXPORT [--globals]

The first two compute every weight, block scale and global scale of EXPORT from
the weights in SOURCE with nvidia-modelopt, or with llm-compressor's arithmetic
in compressed-tensors (--f32: from the weights as f32), and compare bits. Global
scales are taken over the projections that a server fuses, as both libraries'
exporters do. "load" loads EXPORT with transformers and compares its logits with
those of the same model with the dequantized weights put into SOURCE's.
transformers 5.17 drops the global scales of NVFP4 experts, which its load report
names as unexpected; --globals applies them to the loaded experts, as what it
decodes from codes and block scales is exact. "dense" makes a small dense model.
Prints one line of figures; the exit status is 1 where something differs.
"""

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


def dequantized(export):
    """The weights of the quantized modules of a compressed-tensors export, by the
    formulas of docs/formats.md, in the type that compressed-tensors decodes to."""
    e2m1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    for name in sorted(n for n in export if n.endswith(".weight_scale")):
        m = name.removesuffix(".weight_scale")
        scale = export[name]
        packed = export.get(f"{m}.weight_packed")
        if packed is None:  # FP8
            weight = export[f"{m}.weight"].float() * scale.float()
        elif packed.dtype == torch.int32:  # symmetric int4: stored + 8
            rows, cols = export[f"{m}.weight_shape"].tolist()
            codes = torch.stack([(packed >> (4 * i)) & 15 for i in range(8)], -1).flatten(-2)[:, :cols] - 8
            weight = codes.to(scale.dtype) * scale.repeat_interleave(cols // scale.shape[-1], -1)
        else:
            values = e2m1[torch.stack([packed & 15, packed >> 4], -1).flatten(-2).long()]
            if scale.dtype == torch.uint8:  # MXFP4
                weight = values * torch.exp2(scale.float() - 127).repeat_interleave(32, -1)
            else:
                weight = values * (scale.float() / export[f"{m}.weight_global_scale"]).repeat_interleave(16, -1)
        yield m, weight.to(torch.bfloat16)


def apply_globals(model, export):
    """Divides each loaded NVFP4 expert by its global scale."""
    parameters = dict(model.named_parameters())
    for name, scale in export.items():
        if not name.endswith(".weight_global_scale") or ".experts." not in name:
            continue
        layer, _, rest = name.partition(".experts.")
        expert, projection = rest.split(".")[:2]
        fused = "down_proj" if projection == "down_proj" else "gate_up_proj"
        if f"{layer}.experts.{fused}" not in parameters:
            continue  # the MTP layer, which transformers does not load
        part = parameters[f"{layer}.experts.{fused}"].data[int(expert)]
        if fused == "gate_up_proj":
            half = part.shape[0] // 2
            part = part[:half] if projection == "gate_proj" else part[half:]
        part.copy_((part.float() / scale).to(part.dtype))


def load(source_dir, export_dir, globals_by_hand):
    import shutil
    import tempfile

    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    ids = torch.randint(0, 1024, (2, 64), generator=torch.Generator().manual_seed(1))
    export = tensors(export_dir)

    def logits(folder, change=lambda model: None):
        # compressed-tensors decodes to bf16; in that type both models do the same
        # sums, so that equal weights give equal logits.
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        change(model)
        with torch.no_grad():
            return model(ids).logits.float()

    plain, count = tensors(source_dir), 0
    for module, weight in dequantized(export):
        plain[f"{module}.weight"] = weight
        count += 1
    with tempfile.TemporaryDirectory() as tmp:
        for file in Path(source_dir).glob("*.json"):
            if "index" not in file.name:
                shutil.copy(file, tmp)
        save_file({k: v.contiguous() for k, v in plain.items()}, f"{tmp}/model.safetensors", metadata={"format": "pt"})
        want = logits(tmp)
    got = logits(export_dir, (lambda m: apply_globals(m, export)) if globals_by_hand else lambda m: None)
    worst = (got - want).abs().max().item()
    print(f"{count} modules; largest difference of a logit {worst:.3g} to the dequantized weights, "
          f"{(logits(source_dir) - want).abs().max().item():.3g} between those and the source")
    return worst <= 1e-3 and count > 0


def dense(folder):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=128, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=1024, tie_word_embeddings=False)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return True


def main():
    what, source_dir = sys.argv[1:3]
    if what == "dense":
        return dense(source_dir)
    export_dir = sys.argv[3]
    if what == "load":
        return load(source_dir, export_dir, "--globals" in sys.argv)
    source, export = tensors(source_dir), tensors(export_dir)
    if what == "modelopt":
        return compare(modelopt(source, export), export)
    return compare(compressed_tensors(source, export, "--f32" in sys.argv), export)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

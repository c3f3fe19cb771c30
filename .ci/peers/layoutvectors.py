#!/usr/bin/env python3
"""Writes what other libraries store, and what they dequantize it to, for the readers in
quant/layout: FILE.safetensors with CASE.PARAMETER and CASE.dequant, and FILE.json with the
quantization_config of each case.

    layoutvectors.py words FILE      compressed-tensors 0.19: integers of 1 to 8 bits, in words and in bytes,
                                     FP8 with zero points and of groups, MXFP8
    layoutvectors.py older FILE      compressed-tensors 0.12: words of whole values, groups in the order of
                                     activations (run with that release first in PYTHONPATH)
    layoutvectors.py modelopt FILE   nvidia-modelopt 0.47: exports of a small llama
    layoutvectors.py quark FILE      amd-quark 0.13: exports of the same

Values are f32. ModelOpt's, for which it has no function that decodes them all, are
its formula: code * scale (* weight_scale_2) * pre_quant_scale of the input.
"""

import copy
import json
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

warnings.filterwarnings("ignore")


def write(path, cases):
    """cases: name -> (config, tensors)"""
    tensors = {f"{name}.{k}": v.contiguous() for name, (_, t) in cases.items() for k, v in t.items()}
    save_file(tensors, f"{path}.safetensors")
    Path(f"{path}.json").write_text(json.dumps({name: c for name, (c, _) in cases.items()}, indent=1, sort_keys=True) + "\n")


def weights(rows, cols, seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(rows, cols, generator=g)
    w[1] = 0
    return w


def ct_config(args, fmt):
    weights_args = {k: v for k, v in json.loads(args.model_dump_json()).items() if v is not None}
    return {
        "quant_method": "compressed-tensors", "format": fmt, "ignore": ["lm_head"], "quantization_status": "compressed",
        "global_compression_ratio": None, "kv_cache_scheme": None,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights_args, "format": fmt}},
    }


def ct_qparams(w, args):
    from compressed_tensors.quantization.utils import calculate_qparams
    if args.strategy == "group":
        x = w.reshape(w.shape[0], -1, args.group_size)
        return calculate_qparams(x.amin(-1), x.amax(-1), args)
    if args.strategy == "channel":
        return calculate_qparams(w.amin(1, keepdim=True), w.amax(1, keepdim=True), args)
    if args.strategy == "block":
        r, c = args.block_structure
        x = torch.nn.functional.pad(w, (0, -w.shape[1] % c, 0, -w.shape[0] % r))
        x = x.reshape(x.shape[0] // r, r, x.shape[1] // c, c)
        return calculate_qparams(x.amin((1, 3)), x.amax((1, 3)), args)
    return calculate_qparams(w.min().reshape(1), w.max().reshape(1), args)


def words(path):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    cases = {}

    def add(name, fmt, dtype, rows, cols, **kw):
        args = QuantizationArgs(**kw)
        w = weights(rows, cols, len(cases) + 1).to(dtype)
        scale, zero = ct_qparams(w.float(), args)
        scale = scale.to(dtype)
        if fmt == "mxfp8-quantized":
            scale = 2.0 ** torch.ceil(torch.log2(scale.float())).to(dtype)
        if kw.get("type") == "float" and not args.symmetric:
            zero = (torch.rand(scale.shape, generator=torch.Generator().manual_seed(5)) * 40 - 20).to(torch.float8_e4m3fn)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        state = {"weight": w, "weight_scale": scale}
        if not args.symmetric or zero is not None and fmt != "mxfp8-quantized":
            state["weight_zero_point"] = zero
        c = BaseCompressor.get_value_from_registry(fmt)
        packed = c.compress(dict(state), scheme)
        out = dict(packed)
        out["dequant"] = c.decompress(dict(packed), scheme)["weight"].float()
        cases[name] = (ct_config(args, fmt), out)

    bf, f32, f16 = torch.bfloat16, torch.float32, torch.float16
    for b in range(1, 9):
        # 40 outputs and 96 inputs: neither fills words at every number of bits
        sym = dict(num_bits=b, type="int", symmetric=True)
        asym = dict(num_bits=b, type="int", symmetric=False)
        add(f"w{b}_asym_g32", "pack-quantized", bf, 12, 96, strategy="group", group_size=32, **asym)
        add(f"w{b}_sym_channel", "pack-quantized", f32, 5, 45, strategy="channel", **sym)
    add("w4_sym_f16", "pack-quantized", f16, 6, 64, num_bits=4, type="int", symmetric=True, strategy="group", group_size=32)
    add("w4_asym_g48", "pack-quantized", bf, 9, 96, num_bits=4, type="int", symmetric=False, strategy="group", group_size=48)
    add("w4_sym_tensor", "pack-quantized", bf, 5, 40, num_bits=4, type="int", symmetric=True, strategy="tensor")
    add("i8_sym_channel", "int-quantized", bf, 6, 40, num_bits=8, type="int", symmetric=True, strategy="channel")
    add("i8_asym_channel", "int-quantized", bf, 6, 40, num_bits=8, type="int", symmetric=False, strategy="channel")
    add("i8_asym_tensor", "int-quantized", f32, 6, 40, num_bits=8, type="int", symmetric=False, strategy="tensor")
    add("i8_asym_g16", "naive-quantized", f16, 6, 48, num_bits=8, type="int", symmetric=False, strategy="group", group_size=16)
    add("i4_asym_g16", "naive-quantized", bf, 6, 48, num_bits=4, type="int", symmetric=False, strategy="group", group_size=16)
    add("f8_asym_channel", "float-quantized", bf, 6, 40, num_bits=8, type="float", symmetric=False, strategy="channel")
    add("f8_g32", "float-quantized", bf, 6, 64, num_bits=8, type="float", symmetric=True, strategy="group", group_size=32)
    add("f8_f16_channel", "float-quantized", f16, 6, 40, num_bits=8, type="float", symmetric=True, strategy="channel")
    add("f8_block_4x16", "float-quantized", bf, 10, 40, num_bits=8, type="float", symmetric=True, strategy="block", block_structure=[4, 16])
    add("f8_asym_block_4x16", "float-quantized", f32, 10, 40, num_bits=8, type="float", symmetric=False, strategy="block", block_structure=[4, 16])
    add("mxfp8", "mxfp8-quantized", bf, 6, 96, num_bits=8, type="float", symmetric=True, strategy="group", group_size=32, scale_dtype=torch.uint8)
    write(path, cases)


def older(path):
    from compressed_tensors.compressors.quantized_compressors.pack_quantized import PackedQuantizationCompressor, pack_to_int32
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize, quantize
    cases = {}

    def add(name, dtype, rows, cols, order, **kw):
        args = QuantizationArgs(**kw)
        w = weights(rows, cols, 100 + len(cases)).to(dtype)
        g_idx, grouped = None, w.float()
        if order:
            perm = torch.randperm(cols, generator=torch.Generator().manual_seed(11))
            g_idx = torch.empty(cols, dtype=torch.int32)
            g_idx[perm] = (torch.arange(cols) // args.group_size).to(torch.int32)
            grouped = grouped[:, perm]
        scale, zero = ct_qparams(grouped, args)
        scale = scale.to(dtype)
        state = PackedQuantizationCompressor().compress_weight(w, scale, args, zero, g_idx)
        codes = quantize(x=w, scale=scale, zero_point=zero, g_idx=g_idx, args=args, dtype=torch.int8)
        out = {"weight_packed": state["weight_packed"], "weight_shape": state["weight_shape"], "weight_scale": scale}
        if not args.symmetric:
            out["weight_zero_point"] = state["weight_zero_point"]
        if order:
            out["weight_g_idx"] = g_idx
        elif kw.get("actorder"):
            out["weight_g_idx"] = torch.full((cols,), -1, dtype=torch.int32)
        out["dequant"] = dequantize(codes, scale, zero, args=args, g_idx=g_idx).float()
        cases[name] = (ct_config(args, "pack-quantized"), out)

    for b in (3, 5, 6, 7):
        add(f"padded_w{b}", torch.bfloat16, 12, 96, False, num_bits=b, type="int", symmetric=False, strategy="group", group_size=32)
    # 11 inputs of 3 bits take 2 words either way
    add("padded_w3_11", torch.float32, 24, 11, False, num_bits=3, type="int", symmetric=False, strategy="channel")
    add("order_w4", torch.bfloat16, 12, 96, True, num_bits=4, type="int", symmetric=False, strategy="group", group_size=32, actorder="group")
    add("order_w8_sym", torch.float32, 12, 96, True, num_bits=8, type="int", symmetric=True, strategy="group", group_size=16, actorder="group")
    add("no_order_w4", torch.bfloat16, 12, 96, False, num_bits=4, type="int", symmetric=True, strategy="group", group_size=32, actorder="group")
    write(path, cases)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(7)
    c = LlamaConfig(vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=1,
                    head_dim=8, max_position_embeddings=64, tie_word_embeddings=False)
    c.architectures = ["LlamaForCausalLM"]
    return LlamaForCausalLM(c).to(torch.bfloat16).eval()


# The smallest matrix, 8 x 128.
KEPT = "model.layers.0.self_attn.k_proj"


def module(folder, name):
    with safe_open(folder / "model.safetensors", "pt") as f:
        return {k[len(name) + 1:]: f.get_tensor(k) for k in f.keys() if k.startswith(name + ".") and not k.endswith("input_scale")}


def modelopt(path):
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    cases = {}
    e2m1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])

    def nibbles(w, dim):
        return torch.stack([w & 15, w >> 4], dim).reshape(2 * w.shape[0] if dim == 1 else w.shape[0], -1).long()

    def decode(t):
        w, s = t["weight"], t["weight_scale"]
        if w.dtype == torch.int8:
            d = w.float() * s[:, None]
        elif w.dtype == torch.uint8 and s.dtype == torch.float32:
            q = nibbles(w, 1)
            d = torch.where(q > 7, q - 16, q).float() * s.repeat_interleave(q.shape[1] // s.shape[1], 1)
        elif w.dtype == torch.uint8:
            q = e2m1[torch.stack([w & 15, w >> 4], -1).reshape(w.shape[0], -1).long()]
            if s.dtype == torch.float8_e4m3fn:  # its table of NVFP4 has no -0
                f, q = s.float() * t["weight_scale_2"], q + 0.0
            else:
                f = 2.0 ** (s.float() - 127)
            d = q * f.repeat_interleave(q.shape[1] // f.shape[1], 1)
        elif s.dtype == torch.uint8:
            d = w.float() * (2.0 ** (s.float() - 127)).repeat_interleave(32, 1)
        elif s.dim() == 4:
            d = w.float() * s.reshape(s.shape[0], s.shape[2]).repeat_interleave(128, 0).repeat_interleave(128, 1)[: w.shape[0], : w.shape[1]]
        elif s.dim() == 1:
            d = w.float() * s[:, None]
        else:
            d = w.float() * s
        return d * t["pre_quant_scale"].float() if "pre_quant_scale" in t else d

    def loop(m):
        torch.manual_seed(3)
        for _ in range(2):
            m(torch.randint(0, 64, (2, 16)))

    presets = {
        "int4_awq": "INT4_AWQ_CFG", "w4a8_awq": "W4A8_AWQ_BETA_CFG", "nvfp4_awq": "NVFP4_AWQ_LITE_CFG", "w4a16_nvfp4": "W4A16_NVFP4_CFG",
        "w4a8_nvfp4_fp8": "W4A8_NVFP4_FP8_CFG", "mxfp8": "MXFP8_DEFAULT_CFG", "mxfp4": "MXFP4_DEFAULT_CFG", "w4a8_mxfp4": "W4A8_MXFP4_FP8_CFG",
        "fp8": "FP8_DEFAULT_CFG", "fp8_pc_pt": "FP8_PER_CHANNEL_PER_TOKEN_CFG", "fp8_pb_wo": "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG",
        "int8_sq": "INT8_SMOOTHQUANT_CFG", "int8_wo": "INT8_WEIGHT_ONLY_CFG",
    }
    for name, preset in presets.items():
        model, config = llama(), copy.deepcopy(getattr(mtq, preset))
        if "NVFP4" not in preset and "MX" not in preset:  # its 32 inputs are no block of 128
            config["quant_cfg"].append({"quantizer_name": "*o_proj*", "enable": False})
        if "NVFP4" in preset or "MX" in preset:  # whose emulation wants a GPU: no activations, scales by hand
            config["algorithm"] = "max"
            model = mtq.quantize(model, config, lambda m: None)
            torch.manual_seed(5)
            for m in model.modules():
                q = getattr(m, "input_quantizer", None)
                if q is None or not hasattr(m, "weight_quantizer") or not m.weight_quantizer.is_enabled or "MX" in preset:
                    continue
                if q.is_enabled:
                    q.amax = torch.tensor(3.0)
                if "AWQ" in preset:
                    s = (0.5 + torch.rand(m.weight.shape[1])).to(torch.bfloat16)
                    q._enable_pre_quant_scale = True
                    q.pre_quant_scale = s
                    m.weight.data = (m.weight.data.float() / s.float()).to(torch.bfloat16)
                    m.weight_quantizer.reset_amax()
                    m.weight_quantizer.amax = m.weight.abs().amax().float()
        else:
            model = mtq.quantize(model, config, loop)
        with tempfile.TemporaryDirectory() as work:
            work = Path(work)
            export_hf_checkpoint(model, export_dir=work)
            layers = [KEPT]
            if "awq" in name or name == "int8_sq":
                layers = ["model.layers.0.mlp.down_proj"] if name != "nvfp4_awq" else ["model.layers.0.self_attn.o_proj"]
            if name == "fp8_pb_wo":
                layers = ["model.layers.0.mlp.up_proj"]
            t = module(work, layers[0])
            out = {k: v for k, v in t.items()}
            out["dequant"] = decode(t)
            quant = json.loads((work / "config.json").read_text())["quantization_config"]
            quant["hf_quant_config"] = json.loads((work / "hf_quant_config.json").read_text())
            cases[name] = (quant, out)
    write(path, cases)


def quark(path):
    import quark.torch.quantization.config.config as q
    from quark.torch import ModelQuantizer, export_safetensors
    from quark.torch.quantization.config.config import QConfig, QLayerConfig
    import quark.torch.kernel  # registers dequantize
    from torch.utils.data import DataLoader
    from quark.torch.utils.pack import create_pack_method
    cases = {}
    specs = {
        "uint4_g128": q.Uint4PerGroupSpec(ch_axis=-1, group_size=128), "uint4_g32_order": q.Uint4PerGroupSpec(ch_axis=-1, group_size=32),
        "int4_g32": q.Int4PerGroupSpec(ch_axis=-1, group_size=32), "int4_channel": q.Int4PerChannelSpec(ch_axis=0),
        "int8_channel": q.Int8PerChannelSpec(ch_axis=0), "int8_tensor": q.Int8PerTensorSpec(),
        "uint8_g32": q.Uint8PerGroupSpec(ch_axis=-1, group_size=32), "int8_g32": q.Int8PerGroupSpec(ch_axis=-1, group_size=32),
        "fp8_tensor": q.FP8E4M3PerTensorSpec(observer_method="min_max", is_dynamic=False), "fp8_channel": q.FP8E4M3PerChannelSpec(ch_axis=0, is_dynamic=False),
        "mxfp4": q.OCP_MXFP4Spec(ch_axis=-1, is_dynamic=False),
    }
    for name, s in specs.items():
        spec = s.to_quantization_spec()
        model = llama()
        data = DataLoader([torch.randint(0, 64, (16,)) for _ in range(2)], batch_size=1)
        quantizer = ModelQuantizer(QConfig(global_quant_config=QLayerConfig(weight=spec), exclude=["lm_head", "*o_proj"]))
        model = quantizer.freeze(quantizer.quantize_model(model, data))
        with tempfile.TemporaryDirectory() as work:
            work = Path(work)
            export_safetensors(model, str(work), pack_method="order" if name.endswith("order") else "reorder")
            t = module(work, KEPT)
            out = {k: v for k, v in t.items()}
            if name == "mxfp4":
                out["dequant"] = e2m1_mx(t)
            elif name.startswith("fp8"):  # as its dequantize_fp8 has it, which wants no zero point
                out["dequant"] = t["weight"].float() * (t["weight_scale"].float()[:, None] if t["weight_scale"].dim() else t["weight_scale"].float())
            else:
                pack = create_pack_method(spec.qscheme.value, spec.dtype.value)
                reorder = not name.endswith("order")
                size = {} if t["weight_scale"].dim() == 0 else {"origin_packed_axis_size": t["weight_scale"].shape[-1]}
                w = pack.unpack(t["weight"], reorder, **size)
                scale, zero = t["weight_scale"], t.get("weight_zero_point")
                if zero is not None:
                    zero = pack.unpack(zero, reorder, **size)
                if spec.qscheme.value == "per_group":
                    scale = scale.t().contiguous()
                out["dequant"] = torch.ops.quark.dequantize(spec.dtype.value, w, scale, zero, spec.ch_axis or 0, spec.group_size or 0, spec.qscheme.value).float()
            config = json.loads((work / "config.json").read_text())["quantization_config"]
            cases[name] = (config, out)
    write(path, cases)


def e2m1_mx(t):
    table = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
    w = t["weight"]
    q = table[torch.stack([w & 15, w >> 4], -1).reshape(w.shape[0], -1).long()]
    return q * (2.0 ** (t["weight_scale"].float() - 127)).repeat_interleave(32, 1)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("words", "older", "modelopt", "quark"):
        sys.exit(__doc__)
    {"words": words, "older": older, "modelopt": modelopt, "quark": quark}[sys.argv[1]](sys.argv[2])

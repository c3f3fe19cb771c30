"""Load converted checkpoints with other people's libraries and compare.

    convert.py gptq FOLDER [--act-order]
    convert.py logits A B [--dtype float16]
    convert.py weights A B [--dtype float16]

"gptq" has GPTQModel quantize a small random Llama, 4 bits in groups of 64. "logits"
loads both checkpoints with transformers, which uses compressed-tensors or GPTQModel
as their configs say, and compares what they compute; "weights" compares the weights of
every linear module as these libraries decode them. Prints one line; the exit status is
1 where a weight differs, or a logit by more than the order of sums explains.
"""

import json
import os
import sys

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # or it does not start on two cores

import torch


def option(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def gptq(folder):
    import shutil
    import tempfile
    from gptqmodel import GPTQModel, QuantizeConfig
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=128, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=1024, tie_word_embeddings=False)
    with tempfile.TemporaryDirectory() as dense:
        LlamaForCausalLM(config).to(torch.float16).save_pretrained(dense)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"quant/demo/data/model/{name}", dense)
        how = QuantizeConfig(bits=4, group_size=64, sym=True, desc_act="--act-order" in sys.argv, act_group_aware=False)
        model = GPTQModel.load(dense, how, device="cpu")
        g = torch.Generator().manual_seed(3)
        text = [{"input_ids": torch.randint(0, 1024, (1, 128), generator=g), "attention_mask": torch.ones(1, 128, dtype=torch.long)}
                for _ in range(16)]
        model.quantize(text, batch_size=1)
        model.save(folder)
    return True


def load(folder):
    from transformers import AutoModelForCausalLM

    dtype = getattr(torch, option("--dtype", "float16"))
    more = {}
    with open(f"{folder}/config.json") as f:
        quant = json.load(f)["quantization_config"]
    if quant["quant_method"] == "gptq":
        from transformers import GPTQConfig
        more = {"device_map": "cpu", "quantization_config": GPTQConfig(bits=quant["bits"], backend="torch")}
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **more).eval()


def decoded(model):
    """The weight of every linear module, [out, in], as its library decodes it."""
    out = {}
    for name, module in model.named_modules():
        if hasattr(module, "dequantize_weight"):  # GPTQModel, [in, out]
            out[name] = module.dequantize_weight().detach().T.contiguous()
        elif isinstance(module, torch.nn.Linear) and hasattr(module, "weight_packed"):
            from compressed_tensors.compressors import BaseCompressor
            kind = BaseCompressor.get_value_from_registry(module.quantization_scheme.format)
            state = dict(module.named_parameters()) | dict(module.named_buffers())
            out[name] = kind.decompress(state, module.quantization_scheme)["weight"].detach()
        elif isinstance(module, torch.nn.Linear):
            out[name] = module.weight.detach()
    return out


def weights(a, b):
    x, y = decoded(load(a)), decoded(load(b))
    differ, elements, worst = 0, 0, 0.0
    for name in sorted(x):
        p, q = x[name].float(), y[name].float()
        differ += (p != q).sum().item()
        elements += p.numel()
        worst = max(worst, (p - q).abs().max().item())
    print(f"{len(x)} linear modules, {elements} weights, {differ} differ, by up to {worst:.3g}")
    return differ == 0 and x.keys() == y.keys() and len(x) > 0


def logits(a, b):
    ids = torch.randint(0, 1024, (2, 64), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        x, y = load(a)(ids).logits.float(), load(b)(ids).logits.float()
    worst = (x - y).abs().max().item()
    print(f"largest difference of a logit {worst:.3g}, of logits up to {x.abs().max().item():.3g}")
    return worst <= 2e-3 * x.abs().max().item()


if __name__ == "__main__":
    sys.exit(0 if {"gptq": gptq, "logits": logits, "weights": weights}[sys.argv[1]](*sys.argv[2:(3 if sys.argv[1] == "gptq" else 4)]) else 1)

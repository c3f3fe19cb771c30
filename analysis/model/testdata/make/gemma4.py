"""Random Gemma 4 models with options that gemma4_moe and gemma4_ple do not have, and what
transformers says of them.

    python gemma4.py FOLDER

writes FOLDER/NAME (config.json, model.safetensors in bf16) and
FOLDER/NAME.expected.safetensors: hidden states, logits and experts in f32, and the
logits of texts of 200 tokens. config.hub.json is the config in the words of the
releases, with what it need not say left out. Values were made with transformers 5.24
and torch on a CPU.
"""

import json
import sys

import torch
from safetensors.torch import save_file
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

S, F = "sliding_attention", "full_attention"

MODELS = {
    # Experts, embeddings of the layers' own, borrowed keys and values, biases and a wide
    # MLP in one model; two KV heads in layers that see all, whose values are their keys.
    "gemma4_both": dict(
        hidden_size=48, intermediate_size=24, num_hidden_layers=7, num_attention_heads=6, num_key_value_heads=3, head_dim=8,
        per_layer_config={2: dict(head_dim=12, num_key_value_heads=2), 4: dict(head_dim=12, num_key_value_heads=2), 6: dict(head_dim=12, num_key_value_heads=2)},
        layer_types=[S, S, F, S, F, S, F], sliding_window=9, attention_k_eq_v=True, num_kv_shared_layers=2, use_double_wide_mlp=True,
        hidden_size_per_layer_input=6, vocab_size_per_layer_input=100, attention_bias=True,
        enable_moe_block=True, num_experts=6, top_k_experts=3, moe_intermediate_size=12, final_logit_softcapping=None,
        use_bidirectional_attention="vision", rms_norm_eps=1e-5,
        rope_parameters={F: dict(rope_type="proportional", rope_theta=50000.0, partial_rotary_factor=0.5, factor=2.0), S: dict(rope_type="default", rope_theta=1000.0)},
    ),
    # Only what a config need not say is left unsaid: types of layers (every sixth sees
    # all, and so does the last) and ropes.
    "gemma4_unsaid": dict(
        hidden_size=40, intermediate_size=56, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=4, head_dim=16,
        per_layer_config={5: dict(head_dim=32), 7: dict(head_dim=32)}, sliding_window=16, hidden_size_per_layer_input=0, final_logit_softcapping=5.0,
    ),
}


def released(folder, config):
    with open(f"{folder}/config.json") as f:
        c = json.load(f)
    own = next(iter(c.pop("per_layer_config").values()))
    c["global_head_dim"] = own["head_dim"]
    if "num_key_value_heads" in own:
        c["num_global_key_value_heads"] = own["num_key_value_heads"]
    if c["rope_parameters"][F]["rope_theta"] == 1000000.0:
        del c["layer_types"], c["rope_parameters"], c["use_double_wide_mlp"], c["num_kv_shared_layers"]
    with open(f"{folder}/config.hub.json", "w") as f:
        json.dump(c, f, indent=2)


def main(folder):
    for seed, (name, sizes) in enumerate(MODELS.items()):
        torch.manual_seed(100 + seed)
        config = Gemma4TextConfig(vocab_size=100, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2, **sizes)
        model = Gemma4ForCausalLM(config)
        with torch.no_grad():
            for key, p in list(model.named_parameters()) + [b for b in model.named_buffers() if "layer_scalar" in b[0]]:
                if p.ndim == 1:
                    p.copy_((0.1 * torch.randn_like(p)) if key.endswith("bias") else 1 + 0.2 * torch.randn_like(p))
                elif "embed_tokens" in key:
                    p.copy_(torch.randn_like(p) * 0.3)
                else:
                    p.copy_(torch.randn_like(p) * 1.3 / p.shape[-1] ** 0.5)
        model = model.to(torch.bfloat16)
        model.save_pretrained(f"{folder}/{name}")
        model = Gemma4ForCausalLM.from_pretrained(f"{folder}/{name}", dtype=torch.float32, attn_implementation="eager").eval()
        out = {}
        routed = {}
        for i, layer in enumerate(model.model.layers):
            if config.enable_moe_block:
                layer.router.register_forward_hook(lambda m, a, o, i=i: routed.setdefault(i, o) and None)
        ids = torch.randint(3, 100, (2, 40), generator=torch.Generator().manual_seed(7 + seed))
        model.model.norm.register_forward_hook(lambda m, a, o: None if "last" in out else out.update(last=a[0]))
        with torch.no_grad():
            got = model(ids, output_hidden_states=True, use_cache=False)
            for i, h in enumerate([*got.hidden_states[:-1], out.pop("last")]):
                out[f"hidden.{i}"] = h[:1].contiguous()
            out["final_norm"] = got.hidden_states[-1][:1].contiguous()
            out["logits"], out["input_ids"] = got.logits.contiguous(), ids.to(torch.int32)
            for i, (_, weights, chosen) in routed.items():
                order = chosen.argsort(-1)
                out[f"layer{i}.expert_ids"] = chosen.gather(-1, order).reshape(2, 40, -1).to(torch.int32).contiguous()
                out[f"layer{i}.expert_weights"] = weights.gather(-1, order).reshape(2, 40, -1).contiguous()
            out["last"] = None  # the hook is done
            long = torch.randint(3, 100, (2, 200), generator=torch.Generator().manual_seed(70 + seed))
            out["long.input_ids"] = long.to(torch.int32)
            out["long.logits_last4"] = model(long, use_cache=False).logits[:, -4:].contiguous()
        del out["last"]
        released(f"{folder}/{name}", config)
        save_file(out, f"{folder}/{name}.expected.safetensors")
        print(name, {k: list(v.shape) for k, v in out.items() if k in ("logits", "final_norm")}, len(got.hidden_states), float(got.logits.abs().max()))


main(sys.argv[1])

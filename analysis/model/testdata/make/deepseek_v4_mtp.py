"""deepseek_v4_mtp: what deepseek_v4 does not have. Two streams, rates 3 and 5, three groups
of two heads, five experts of which three, two hash layers of four, a window of 7, two sparse
layers with 3 entries of 5 index heads, rms_norm_eps and hc_eps of their own, 4 Sinkhorn rounds, and
an MTP module. The main model is transformers' in f32, the module, which no peer runs on a CPU,
deepseek_v4_f64.py's, which is first held against transformers on the main model.
config.json is in transformers' words, config.hub.json in the release's."""
import json
import numpy as np, torch
from safetensors.torch import save_file
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HashRouter, DeepseekV4TopKRouter
import peer
from deepseek_v4_f64 import V4

NAME, LAYERS, MODULE_EXPERTS = "deepseek_v4_mtp", 4, 5
common = dict(
    vocab_size=80, hidden_size=48, moe_intermediate_size=24, num_hidden_layers=LAYERS, num_attention_heads=6, num_key_value_heads=1, head_dim=16,
    q_lora_rank=20, num_experts_per_tok=3, n_routed_experts=MODULE_EXPERTS, n_shared_experts=1, scoring_func="sqrtsoftplus", norm_topk_prob=True,
    routed_scaling_factor=2.5, max_position_embeddings=256, rope_theta=5000.0, compress_rope_theta=40000.0,
    compress_rates={"compressed_sparse_attention": 3, "heavily_compressed_attention": 5}, hc_mult=2, hc_sinkhorn_iters=4, hc_eps=1e-4, swiglu_limit=0.9,
    sliding_window=7, o_groups=3, o_lora_rank=10, index_n_heads=5, index_head_dim=12, index_topk=3, num_nextn_predict_layers=1, rms_norm_eps=1e-3,
    hidden_act="silu", tie_word_embeddings=False)
types = ["compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention", "compressed_sparse_attention"]
yarn = dict(factor=4.0, original_max_position_embeddings=32, beta_fast=16, beta_slow=2)
c = DeepseekV4Config(**common, layer_types=types, mlp_layer_types=["hash_moe", "hash_moe", "moe", "moe"], partial_rotary_factor=0.5,
                     rope_parameters=dict(yarn, rope_type="yarn"), dtype="bfloat16", attn_implementation="eager")
m = DeepseekV4ForCausalLM(c).float().eval()
peer.fill(m, 4)
g = torch.Generator().manual_seed(5)
bf16 = lambda x: x.to(torch.bfloat16).float()
with torch.no_grad():
    for n, p in list(m.named_parameters()) + list(m.named_buffers()):
        if n.endswith("tid2eid"):
            p.copy_(torch.stack([torch.randperm(MODULE_EXPERTS, generator=g)[:3] for _ in range(p.shape[0])]))
        elif n.endswith("scale"):  # of hyper-connections
            p.copy_(torch.full_like(p, 0.7))
        elif n.endswith("position_bias"):
            p.copy_(bf16(torch.randn(p.shape, generator=g)))
        elif n.endswith("sinks"):
            p.copy_(bf16(torch.randn(p.shape, generator=g)))
        elif n == "lm_head.weight":  # a few tokens are said often, so that drafts stay
            p[:4] *= 4


def release(name):
    """The release's name of a tensor of transformers'."""
    for a, b in [("model.layers.", "layers."), (".self_attn.", ".attn."), (".mlp.", ".ffn."), ("input_layernorm", "attn_norm"),
                 ("post_attention_layernorm", "ffn_norm"), (".attn_hc.", ".hc_attn_"), (".ffn_hc.", ".hc_ffn_"), ("q_a_proj", "wq_a"), ("q_b_proj", "wq_b"),
                 ("q_a_norm", "q_norm"), (".kv_proj", ".wkv"), (".gate_proj.weight", ".wgate.weight" if "compressor" in name else ".w1.weight"),
                 ("position_bias", "ape"), (".kv_norm", ".norm" if "compressor" in name else ".kv_norm"), ("o_a_proj", "wo_a"), ("o_b_proj", "wo_b"),
                 ("attn.sinks", "attn.attn_sink"), ("e_score_correction_bias", "bias"), (".up_proj.", ".w3."), (".down_proj.", ".w2."),
                 ("model.hc_head.hc_", "hc_head_"), ("model.norm", "norm"), ("model.embed_tokens", "embed"), ("lm_head", "head")]:
        name = name.replace(a, b)
    return name.replace("compressor.indexer.", "indexer.").replace("indexer.norm", "indexer.compressor.norm") \
        .replace("indexer.wkv", "indexer.compressor.wkv").replace("indexer.wgate", "indexer.compressor.wgate").replace("indexer.ape", "indexer.compressor.ape") \
        .replace("indexer.scorer.", "indexer.")


def stored(name, v):
    f32 = name.endswith(("ape", "attn_sink", "gate.bias")) or "hc_" in name
    return v.long() if name.endswith("tid2eid") else v.float() if f32 else v.to(torch.bfloat16)


tensors = {}
for n, v in m.state_dict().items():
    if n.endswith(("experts.gate_up_proj", "experts.down_proj")):
        for e in range(v.shape[0]):
            at = release(n.rsplit(".", 1)[0]) + f".{e}."
            if n.endswith("down_proj"):
                tensors[at + "w2.weight"] = v[e]
            else:
                tensors[at + "w1.weight"], tensors[at + "w3.weight"] = v[e].chunk(2)
    else:
        tensors[release(n)] = v
with torch.no_grad():  # the module: a layer with a window, like layer 2
    for n, v in list(tensors.items()):
        if n.startswith("layers.2.") or n.startswith("hc_head"):
            x = torch.randn(v.shape, generator=g) * (v.float().std() if v.numel() > 1 else 0)
            if "norm" in n:
                x = 0.2 * torch.randn(v.shape, generator=g) + 1
            elif n.endswith("scale"):
                x = torch.full_like(v, 0.6)
            tensors[n.replace("layers.2.", "mtp.0.") if "layers" in n else "mtp.0." + n] = bf16(x)
    for n in ("enorm", "hnorm", "norm"):
        tensors[f"mtp.0.{n}.weight"] = bf16(0.2 * torch.randn(48, generator=g) + 1)
    for n in ("e_proj", "h_proj"):
        tensors[f"mtp.0.{n}.weight"] = bf16(torch.randn(48, 48, generator=g) * 48 ** -0.5)
tensors = {n: stored(n, v).contiguous().clone() for n, v in tensors.items()}
(peer.HERE / NAME).mkdir(exist_ok=True)
save_file(tensors, peer.HERE / NAME / "model.safetensors")
rope = dict(partial_rotary_factor=0.5)
config = dict(common, architectures=["DeepseekV4ForCausalLM"], model_type="deepseek_v4", dtype="bfloat16", layer_types=types, mlp_layer_types=c.mlp_layer_types,
              partial_rotary_factor=0.5, rope_parameters={"main": dict(rope, rope_theta=5000.0, rope_type="default"),
                                                          "compress": dict(yarn, **rope, rope_theta=40000.0, rope_type="yarn", attention_factor=1.0)})
peer.config(NAME, "config.json", config)
hub = dict(common, architectures=["DeepseekV4ForCausalLM"], model_type="deepseek_v4", torch_dtype="bfloat16", compress_ratios=[4, 128, 0, 4, 0], num_hash_layers=2,
           qk_rope_head_dim=8, rope_scaling=dict(yarn, type="yarn"))
peer.config(NAME, "config.hub.json", hub)

routers = {}
for i, l in enumerate(m.model.layers):
    for r in l.modules():
        if isinstance(r, (DeepseekV4HashRouter, DeepseekV4TopKRouter)):
            r.register_forward_hook(lambda _, a, o, i=i: routers.__setitem__(i, o))
ids = peer.tokens(6, 80)
arrays = peer.run(m, m.model.layers, ids, routers)
v4 = V4(hub, {n: v.float().numpy() for n, v in tensors.items()})
out = {k: [] for k in ("logits", "block_out", "norm", "expert_ids", "expert_weights", "router_logits")}
for b, text in enumerate(ids.numpy()):
    x, logits = v4.main(text)
    print("f64 against transformers: logits", np.abs(logits - arrays["logits"][b].numpy()).max())
    seen = []
    block, norm, logits = v4.mtp(x[:-1], text[1:], seen)
    for k, v in zip(out, (logits, block, norm, [s[1] for s in seen], [s[2] for s in seen], [s[0] for s in seen])):
        out[k].append(np.array(v))
for k, v in out.items():
    v = np.stack(v[:1] if k in ("block_out", "norm") else v)
    arrays["mtp." + k] = torch.from_numpy(v).to(torch.int32 if k == "expert_ids" else torch.float32)
peer.save(NAME, arrays)

prompts = []
for seed, n in ((11, 5), (12, 9), (13, 14)):
    prompt = peer.tokens(seed, 80, (n,)).tolist()
    plain, _, _, gap = v4.generate(prompt, 24, False)
    made, drafts, passes, both = v4.generate(prompt, 24, True)
    assert made == plain
    prompts.append({"prompt": prompt, "new_tokens": made, "drafts": drafts, "drafted": len(drafts), "accepted": sum(d["accepted"] for d in drafts), "main_forwards": passes,
                    "smallest_gap": both})
    print(len(drafts), "drafts,", prompts[-1]["accepted"], "stay, smallest gap", both)
(peer.HERE / (NAME + ".generate.json")).write_text(json.dumps({"max_new_tokens": 24, "prompts": prompts}) + "\n")

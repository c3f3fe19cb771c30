"""step3p7_mtp: what step3p7 does not have. Two MTP layers under the release's names, yarn
with half of the channels, biases, query_pre_attn_scalar that is not head_dim, more heads in sliding
layers than in full ones by three, limits in a dense layer, null among limits, experts in layers 1 and 3.

MTP as StepFun's code for vLLM (step3p5_mtp.py, Step3p5Model.forward) and SGLang has it: the module
is fed hidden states before the final norm, the second one what leaves the first one's layer, and each
has a head of its own. Its layers are transformers' MtpLayer; transformers' own MtpModel would feed
states after the norm and use the main head. mtp.* are of the first module, mtp2.* of the second.
step3p7_mtp.generate.json: greedy texts, and what the first module drafts for them."""
import json
import torch
from safetensors.torch import load_file, save_file
from transformers import Step3p7Config, Step3p7ForConditionalGeneration
from transformers.modeling_layers import MtpModel
from transformers.models.step3p7.modeling_step3p7 import Step3p7TopKRouter
import peer

NAME, LAYERS = "step3p7_mtp", 4
scaling = dict(rope_type="yarn", factor=4.0, beta_fast=32, beta_slow=1, original_max_position_embeddings=16)
full, sliding = "full_attention", "sliding_attention"
text = dict(
    vocab_size=96, hidden_size=48, intermediate_size=40, num_hidden_layers=LAYERS, num_attention_heads=2, num_sliding_attention_heads=6, num_key_value_heads=2,
    head_dim=12, max_position_embeddings=256, rms_norm_eps=1e-4, attention_bias=True, mlp_bias=True, layer_types=[sliding, full, sliding, full], sliding_window=7,
    mlp_layer_types=["dense", "sparse", "dense", "sparse"], n_routed_experts=5, num_local_experts=5, num_experts_per_tok=3, moe_intermediate_size=20,
    share_expert_dim=28, query_pre_attn_scalar=20, moe_router_scaling_factor=1.7, swiglu_limits=[0.0, 0.5, 0.0, 0.0], swiglu_limits_shared=[0.6, 0.0, None, 0.7],
    num_nextn_predict_layers=2, mtp_layer_types=[sliding, sliding], mtp_mlp_layer_types=["dense", "dense"], pad_token_id=0,
    rope_parameters={full: dict(scaling, rope_theta=4000.0, partial_rotary_factor=0.5), sliding: dict(rope_type="default", rope_theta=900.0, partial_rotary_factor=1.0)})
vision = dict(width=8, layers=1, heads=2, image_size=16, patch_size=4, mlp_ratio=2.0)
c = Step3p7Config(text_config=text, vision_config=vision, dtype="bfloat16")
m = Step3p7ForConditionalGeneration(c).float().eval()
peer.fill(m, 3, zero_centred=True, quiet=0.5)
m.to(torch.bfloat16).save_pretrained(peer.HERE / NAME)
m = Step3p7ForConditionalGeneration.from_pretrained(peer.HERE / NAME, dtype=torch.float32, attn_implementation="eager").eval()
main = m.model.language_model

m.config.text_config.mtp_per_layer_config = {k: {"num_attention_heads": 6} for k in range(2)}
held = m.config.text_config.swiglu_limits_shared
m.config.text_config.swiglu_limits_shared = None
mtp = MtpModel(m, 2).float().eval()
mtp.config._attn_implementation = "eager"
m.config.text_config.swiglu_limits_shared = held
peer.fill(mtp.layers, 4, zero_centred=True, quiet=0.5)

# Modules that guess right now and then: much of the token's embedding goes straight through to heads
# that resemble the main one.
noise = torch.Generator().manual_seed(5)
heads = [(m.lm_head.weight + 0.03 * torch.randn(96, 48, generator=noise)).detach().to(torch.bfloat16).float() for _ in range(2)]
with torch.no_grad():
    for l in mtp.layers:
        l.eh_proj.weight[:, :48] += 2 * torch.eye(48)
        l.eh_proj.weight.copy_(l.eh_proj.weight.to(torch.bfloat16))

routers = {}
for i, l in enumerate(main.layers):
    for r in l.modules():
        if isinstance(r, Step3p7TopKRouter):
            r.register_forward_hook(lambda _, a, o, i=i: routers.__setitem__(i, o))
blocks = {}
for k, l in enumerate(mtp.layers):
    l.mtp_block.register_forward_hook(lambda _, a, o, k=k: blocks.__setitem__(k, o[0] if isinstance(o, tuple) else o))
raw = {}
main.layers[-1].register_forward_hook(lambda _, a, o: raw.__setitem__("x", o[0] if isinstance(o, tuple) else o))


def module(k, states, ids):
    """Layer k over positions 0 on: block output, normed, logits."""
    with torch.no_grad():
        normed = mtp.forward_layer(k, states, torch.arange(ids.shape[1])[None], None, input_ids=ids)
    return blocks[k].clone(), normed, normed @ heads[k].T


ids = peer.tokens(6, 96)
arrays = peer.run(m, main.layers, ids, routers)
states = raw["x"].clone()
block, normed, logits = module(0, states[:, :-1], ids[:, 1:])
arrays.update({"mtp.block_out": block[:1], "mtp.norm": normed[:1], "mtp.logits": logits})
block, normed, logits = module(1, block[:, :-1], ids[:, 2:])
arrays.update({"mtp2.block_out": block[:1], "mtp2.logits": logits})
peer.save(NAME, arrays)

# The MTP layers under the names of the release.
f = peer.HERE / NAME / "model.safetensors"
t = load_file(f)
for k, l in enumerate(mtp.layers):
    p = f"model.layers.{LAYERS + k}."
    for name, w in l.state_dict().items():
        name = name.removeprefix("mtp_block.").replace("post_norm.", "transformer.shared_head.norm.")
        t[p + name] = w.to(torch.bfloat16).contiguous()
    t[p + "transformer.shared_head.output.weight"] = heads[k].to(torch.bfloat16)
save_file(t, f, {"format": "pt"})
(peer.HERE / NAME / "generation_config.json").unlink(missing_ok=True)

# Greedy texts with a draft of the first module between passes.
N, prompts = 24, []
for p in range(3):
    prompt = peer.tokens(30 + p, 96, (1, 5 + 4 * p))[0].tolist()
    seq, out, drafts, passes, draft = list(prompt), [], [], 0, None
    gap = 9.0

    def choose():
        global gap
        with torch.no_grad():
            row = m(input_ids=torch.tensor([seq]), use_cache=False).logits[0, -1]
        best = row.topk(2).values
        gap = min(gap, float(best[0] - best[1]))
        seq.append(int(row.argmax()))
        out.append(seq[-1])

    while len(out) < N:
        passes += 1
        choose()
        if draft is not None:
            drafts.append(dict(position=len(seq) - 1, token=draft, accepted=draft == seq[-1]))
            if draft == seq[-1] and len(out) < N:
                choose()
        if len(out) >= N:
            break
        with torch.no_grad():
            m(input_ids=torch.tensor([seq[:-1]]), use_cache=False)
        draft = int(module(0, raw["x"], torch.tensor([seq[1:]]))[2][0, -1].argmax())
    prompts.append(dict(prompt=prompt, new_tokens=out, drafts=drafts, main_forwards=passes, smallest_gap=gap))
(peer.HERE / f"{NAME}.generate.json").write_text(json.dumps(dict(max_new_tokens=N, prompts=prompts)) + "\n")
print("drafts", sum(len(p["drafts"]) for p in prompts), "accepted", sum(d["accepted"] for p in prompts for d in p["drafts"]), "gaps", [round(p["smallest_gap"], 4) for p in prompts])

hub = json.loads((peer.HERE / NAME / "config.json").read_text())
h = hub["text_config"]
for key in ("rope_parameters", "mlp_layer_types", "mtp_layer_types", "mtp_mlp_layer_types", "per_layer_config", "mtp_per_layer_config", "num_sliding_attention_heads",
            "num_key_value_heads", "n_routed_experts", "num_local_experts", "num_experts_per_tok", "share_expert_dim"):
    h.pop(key, None)
types = text["layer_types"] + [sliding, sliding]
h.update(layer_types=types, rope_theta=[4000.0 if x == full else 900.0 for x in types], partial_rotary_factors=[0.5 if x == full else 1.0 for x in types],
         rope_scaling=scaling, yarn_only_types=[full], moe_layers_enum="1,3", num_attention_groups=2, moe_num_experts=5, moe_top_k=3, share_expert_dims=28,
         attention_other_setting=dict(attention_type=sliding, num_attention_heads=6, num_attention_groups=2, head_dim=12), use_head_wise_attn_gate=True,
         moe_router_activation="sigmoid", use_moe_router_bias=True, norm_expert_weight=True, need_fp32_gate=True, att_impl_type="GQA", zero_centered=True,
         swiglu_limits=text["swiglu_limits"] + [0.0, 0.0], swiglu_limits_shared=text["swiglu_limits_shared"] + [0.0, 0.0])
peer.config(NAME, "config.hub.json", hub)

"""qwen3_next_mtp and qwen3_5_mtp: a module of multi-token prediction in Qwen's words, whose arithmetic is vLLM's
(model_executor/models/qwen3_next_mtp.py): fc [pre_fc_norm_embedding(embedding of token i+1) ;
pre_fc_norm_hidden(h_i)] with h_i after the final norm, one decoder layer of full attention, norm, the
main model's head. transformers has no module for these models: the decoder layer is its own class, the
rest stands here. The main model has layers whose MLP is dense (mlp_only_layers, decoder_sparse_step in
qwen3_next), keys of 20 and values of 12 channels, three value heads a key head, five taps.
*.generate.json: greedy texts with and without drafts, every pass over the whole text without a cache."""
import json
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3NextConfig, Qwen3NextForCausalLM, Qwen3_5TextConfig, Qwen3_5ForCausalLM
from transformers.models.qwen3_next import modeling_qwen3_next as next_
from transformers.models.qwen3_5 import modeling_qwen3_5 as five
import peer

NEW = 24
shape = dict(vocab_size=96, hidden_size=48, intermediate_size=40, num_attention_heads=6, num_key_value_heads=3, head_dim=12, max_position_embeddings=256,
             rms_norm_eps=1e-5, partial_rotary_factor=0.5, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=20,
             linear_value_head_dim=12, linear_conv_kernel_dim=5, num_hidden_layers=5, tie_word_embeddings=False, dtype="bfloat16",
             layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"],
             rope_parameters=dict(rope_type="default", rope_theta=20000.0, partial_rotary_factor=0.5), attn_implementation="eager")


def make(name, config, main, module, seed):
    """Saves main with random MTP tensors; gives both back in f32."""
    m = main(config).float().eval()
    peer.fill(m, seed, zero_centred=True)
    with torch.no_grad():
        for n, p in m.named_parameters():
            if n.endswith("linear_attn.norm.weight"):
                p.add_(1).copy_(p.to(torch.bfloat16))
            if n.endswith("A_log"):
                p.copy_((p * 5).to(torch.bfloat16))
    m.to(torch.bfloat16).save_pretrained(peer.HERE / name)
    m = main.from_pretrained(peer.HERE / name, dtype=torch.float32, attn_implementation="eager").eval()
    g = torch.Generator().manual_seed(seed + 1)
    extra = torch.nn.Module()
    h = config.hidden_size
    one = json.loads(json.dumps(config.to_dict()))
    one.update(num_hidden_layers=1, layer_types=["full_attention"], mlp_only_layers=[], decoder_sparse_step=1)
    of_layer = type(config)(**{k: v for k, v in one.items() if k not in ("model_type", "transformers_version")})
    of_layer._attn_implementation = "eager"
    extra.layers = torch.nn.ModuleList([module.DECODER(of_layer, 0)])
    extra.fc = torch.nn.Linear(2 * h, h, bias=False)
    for n in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        setattr(extra, n, module.RMS(h, eps=config.rms_norm_eps))
    peer.fill(extra, seed + 1, zero_centred=True)
    stored = load_file(peer.HERE / name / "model.safetensors")
    for n, p in extra.state_dict().items():
        if n.endswith("experts.gate_up_proj"):
            for e in range(p.shape[0]):
                stored[f"mtp.{n.replace('gate_up_proj', f'{e}.gate_proj.weight')}"] = p[e, : p.shape[1] // 2]
                stored[f"mtp.{n.replace('gate_up_proj', f'{e}.up_proj.weight')}"] = p[e, p.shape[1] // 2 :]
        elif n.endswith("experts.down_proj"):
            for e in range(p.shape[0]):
                stored[f"mtp.{n}".replace("down_proj", f"{e}.down_proj.weight")] = p[e]
        else:
            stored[f"mtp.{n}"] = p
    save_file({k: v.to(torch.bfloat16).contiguous().clone() for k, v in stored.items()}, peer.HERE / name / "model.safetensors", {"format": "pt"})
    (peer.HERE / name / "generation_config.json").unlink(missing_ok=True)
    return m, extra.float().eval()


def module_pass(m, extra, normed, following):
    """The module over positions 0 …: states after the main model's norm, and the tokens that follow."""
    n = following.shape[1]
    x = torch.cat([extra.pre_fc_norm_embedding(m.model.embed_tokens(following)), extra.pre_fc_norm_hidden(normed)], -1)
    x = extra.fc(x)
    pos = torch.arange(n)[None]
    rotary = m.model.rotary_emb(x, pos)
    mask = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)[None, None]
    out = extra.layers[0](x, position_embeddings=rotary, attention_mask=mask, position_ids=pos)
    out = out[0] if isinstance(out, tuple) else out
    last = extra.norm(out)
    return out, last, m.lm_head(last)


def states(m, ids):
    got = []
    hook = m.model.norm.register_forward_hook(lambda mod, a, o: got.append(o))
    logits = m(input_ids=ids, use_cache=False).logits
    hook.remove()
    return got[0], logits


def drafts(m, extra, prompt):
    """Greedy with one draft a pass, as *.generate.json has it."""
    ids, said, drafted, passes, gap = list(prompt), [], [], 0, 9.0
    draft = None
    while len(said) < NEW:
        text = ids + ([draft] if draft is not None else [])
        normed, logits = states(m, torch.tensor([text]))
        passes += 1
        def best(row):
            top = logits[0, row].topk(2).values
            nonlocal gap
            gap = min(gap, float(top[0] - top[1]))
            return int(logits[0, row].argmax())
        new = [best(len(ids) - 1)]
        if draft is not None:
            ok = draft == new[0]
            drafted.append({"position": len(ids), "token": draft, "accepted": ok})
            if ok:
                new.append(best(len(ids)))
        new = new[: NEW - len(said)]
        ids, said = ids + new, said + new
        # the states of all positions but the last token's, and the token after each
        keep = len(ids) - 1
        _, _, out = module_pass(m, extra, normed[:, :keep], torch.tensor([ids[1:]]))
        top = out[0, -1].topk(2).values
        gap = min(gap, float(top[0] - top[1]))
        draft = int(out[0, -1].argmax())
    return {"prompt": prompt, "new_tokens": said, "drafts": drafted, "main_forwards": passes, "gap": gap}


def golden(name, m, extra, layers, routers, module_router):
    ids = peer.tokens(3, shape["vocab_size"])
    arrays = peer.run(m, layers, ids, routers)
    seen = []
    if module_router is not None:
        module_router.register_forward_hook(lambda _, a, o: seen.append(o))
    with torch.no_grad():
        normed, _ = states(m, ids)
        all_ = [module_pass(m, extra, normed[b : b + 1, :-1], ids[b : b + 1, 1:]) for b in range(ids.shape[0])]
        arrays["mtp.logits"] = torch.cat([x[2] for x in all_])
        arrays["mtp.block_out"], arrays["mtp.norm"] = all_[0][0], all_[0][1]
        if seen:
            n = ids.shape[1] - 1
            logits, weights, chosen = (torch.cat([o[i].reshape(n, -1) for o in seen]) for i in range(3))
            order = chosen.argsort(-1)
            arrays["mtp.router_logits"] = logits.reshape(2, n, -1)
            arrays["mtp.expert_ids"] = chosen.gather(-1, order).to(torch.int32).reshape(2, n, -1)
            arrays["mtp.expert_weights"] = weights.gather(-1, order).reshape(2, n, -1)
        prompts = [drafts(m, extra, peer.tokens(10 + i, shape["vocab_size"], (4 + 3 * i,)).tolist()) for i in range(3)]
    peer.save(name, arrays)
    print(name, "accepted", [sum(d["accepted"] for d in p["drafts"]) for p in prompts], "smallest gap", min(p["gap"] for p in prompts))
    (peer.HERE / f"{name}.generate.json").write_text(json.dumps({"max_new_tokens": NEW, "prompts": prompts}, indent=1) + "\n")


next_.DECODER, next_.RMS = next_.Qwen3NextDecoderLayer, next_.Qwen3NextRMSNorm
five.DECODER, five.RMS = five.Qwen3_5DecoderLayer, five.Qwen3_5RMSNorm

c = Qwen3NextConfig(**shape, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=20, norm_topk_prob=False,
                    mlp_only_layers=[2], decoder_sparse_step=2)
m, extra = make("qwen3_next_mtp", c, Qwen3NextForCausalLM, next_, 41)
routers = {}
for i, l in enumerate(m.model.layers):
    if hasattr(l.mlp, "gate"):
        l.mlp.gate.register_forward_hook(lambda _, a, o, i=i: routers.__setitem__(i, o))
golden("qwen3_next_mtp", m, extra, m.model.layers, routers, extra.layers[0].mlp.gate)

c = Qwen3_5TextConfig(**shape)
m, extra = make("qwen3_5_mtp", c, Qwen3_5ForCausalLM, five, 51)
golden("qwen3_5_mtp", m, extra, m.model.layers, {}, None)

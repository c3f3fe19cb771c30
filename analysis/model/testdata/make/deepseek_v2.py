"""deepseek_v2_lora: what deepseek_v2 does not have. A low-rank query, the greedy choice,
rms_norm_eps far from the 1e-6 that the latents' norms keep, two mscales that differ, biases, a
routed weight below 1, first_k_dense_replace 2 of 4, heads that are no power of two.
config.hub.json spells it as the releases do (rope_scaling, rope_theta, torch_dtype, keys of losses)."""
import json
import torch
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2TopkRouter
import peer

NAME = "deepseek_v2_lora"
rope = dict(factor=4.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=0.707, original_max_position_embeddings=16)
c = DeepseekV2Config(
    vocab_size=96, hidden_size=48, intermediate_size=40, num_hidden_layers=4, num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=256,
    rms_norm_eps=0.02, attention_bias=True, first_k_dense_replace=2, kv_lora_rank=12, q_lora_rank=20, n_group=1, topk_group=1, n_routed_experts=7,
    n_shared_experts=1, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, routed_scaling_factor=0.6, topk_method="greedy", num_experts_per_tok=3,
    moe_intermediate_size=24, rope_parameters=dict(rope, rope_type="yarn", rope_theta=5000.0), dtype="bfloat16", attn_implementation="eager")
m = DeepseekV2ForCausalLM(c).float().eval()
peer.fill(m, 1)
m.to(torch.bfloat16).save_pretrained(peer.HERE / NAME)
m = DeepseekV2ForCausalLM.from_pretrained(peer.HERE / NAME, dtype=torch.float32, attn_implementation="eager").eval()
routers = {}
for i, l in enumerate(m.model.layers):
    for r in l.modules():
        if isinstance(r, DeepseekV2TopkRouter):
            r.register_forward_hook(lambda _, a, o, i=i: routers.__setitem__(i, o))
peer.save(NAME, peer.run(m, m.model.layers, peer.tokens(2, c.vocab_size), routers))
(peer.HERE / NAME / "generation_config.json").unlink(missing_ok=True)
hub = json.loads((peer.HERE / NAME / "config.json").read_text())
del hub["rope_parameters"], hub["dtype"], hub["head_dim"], hub["qk_head_dim"]
hub.update(rope_theta=5000, rope_scaling=dict(rope, type="yarn"), torch_dtype="bfloat16", scoring_func="softmax", seq_aux=True, aux_loss_alpha=0.001,
           ep_size=1, moe_layer_freq=1, norm_topk_prob=False)
peer.config(NAME, "config.hub.json", hub)

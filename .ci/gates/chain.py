"""What one MTP layer drafts that is fed its own states, apart from the program.

    chain.py MODEL GOLDEN.json      (quant/demo/data/model analysis/model/testdata/demo_mtp.json)

Takes the prompts and greedy texts of mtp.py, the main model's hidden states from
transformers, and the layer from the checkpoint, in f64. A chain depends on nothing but
the text before it, so those of all places are made at once; then steps are walked
through. Prints, of k = 1 to 4, the steps and the drafts that stay by place, for
analysis/model/usemtp_test.go.
"""

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)


class Layer:
    def __init__(self, path):
        c = json.loads((Path(path) / "config.json").read_text())
        self.eps, self.base = c["rms_norm_eps"], c["rope_theta"]
        self.heads, self.kv, self.dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.turn = int(self.dim * c["partial_rotary_factor"])
        self.experts, self.chosen = c["n_routed_experts"], c["num_experts_per_tok"]
        self.w, head = {}, f"model.layers.{c['num_hidden_layers']}."
        for file in Path(path).glob("*.safetensors"):
            with safe_open(file, "pt") as f:
                for n in f.keys():
                    if n.startswith(head):
                        self.w[n.removeprefix(head).removesuffix(".weight")] = f.get_tensor(n).double()

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.w[name]

    def turned(self, x, at):
        n = self.turn
        angle = at.double()[:, None] * self.base ** (-torch.arange(0, n, 2, dtype=torch.float64) / n)
        cos, sin = (torch.cat([f(angle)] * 2, -1)[:, None] for f in (torch.cos, torch.sin))
        r = x[..., :n]
        return torch.cat([r * cos + torch.cat([-r[..., n // 2:], r[..., : n // 2]], -1) * sin, x[..., n:]], -1)

    def qkv(self, x, at):
        h, a = self.norm(x, "input_layernorm"), "self_attn."
        q = self.norm((h @ self.w[a + "q_proj"].T).unflatten(-1, (self.heads, self.dim)), a + "q_norm")
        k = self.norm((h @ self.w[a + "k_proj"].T).unflatten(-1, (self.kv, self.dim)), a + "k_norm")
        v = (h @ self.w[a + "v_proj"].T).unflatten(-1, (self.kv, self.dim))
        wide = self.heads // self.kv
        return self.turned(q, at), self.turned(k, at).repeat_interleave(wide, -2), v.repeat_interleave(wide, -2)

    def mlp(self, x, name):
        gate, up, down = (self.w[f"mlp.{name}.{p}_proj"].T for p in ("gate", "up", "down"))
        return (F.silu(x @ gate) * (x @ up)) @ down

    def rest(self, x, mixed):
        x = x + mixed @ self.w["self_attn.o_proj"].T
        h = self.norm(x, "post_attention_layernorm")
        score = torch.sigmoid(h @ self.w["mlp.gate"].T)
        chosen = (score + self.w["mlp.gate.e_score_correction_bias"]).topk(self.chosen, -1).indices
        share = torch.zeros_like(score).scatter(-1, chosen, score.gather(-1, chosen))
        share /= share.sum(-1, keepdim=True)
        out = self.mlp(h, "shared_experts")
        for e in range(self.experts):
            out += share[:, e:e + 1] * self.mlp(h, f"experts.{e}")
        return x + out

    def enter(self, states, tokens):
        return torch.cat([self.norm(self.w["embed_tokens"][tokens], "enorm"), self.norm(states, "hnorm")], -1) @ self.w["eh_proj"].T

    def says(self, x):
        return (self.norm(x, "shared_head.norm") @ self.w["shared_head.head"].T).argmax(-1)

    def chains(self, text, states, first, k):
        """Of each place from first on, k drafts for the places from the second after it."""
        n = len(text) - 1
        at, scale = torch.arange(n), self.dim ** -0.5
        x = self.enter(states[:n], text[1:])
        q, keys, values = self.qkv(x, at)
        score = torch.einsum("qhd,khd->qhk", q, keys) * scale
        share = score.masked_fill(at > at[:, None, None], -torch.inf).softmax(-1)
        x = self.rest(x, torch.einsum("qhk,khd->qhd", share, values).flatten(-2))[first:]
        start, drafts, own = at[first:], [self.says(x)], []
        for j in range(1, k):
            x = self.enter(x, drafts[-1])
            q, k1, v1 = self.qkv(x, start + j)
            own.append((k1, v1))
            seen = (torch.einsum("qhd,khd->qhk", q, keys) * scale).masked_fill(at > start[:, None, None], -torch.inf)
            mine = torch.stack([(q * k2).sum(-1) * scale for k2, _ in own], -1)
            share = torch.cat([seen, mine], -1).softmax(-1)
            mixed = torch.einsum("qhk,khd->qhd", share[..., :n], values)
            for i, (_, v2) in enumerate(own):
                mixed += share[..., n + i, None] * v2
            x = self.rest(x, mixed.flatten(-2))
            drafts.append(self.says(x))
        return torch.stack(drafts, 1).tolist()


def main():
    path, golden = sys.argv[1:]
    golden = json.loads(Path(golden).read_text())
    main_model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    layer, new = Layer(path), golden["new_tokens"]
    steps, by = {k: 0 for k in range(1, 5)}, {k: [0] * k for k in range(1, 5)}
    for p in golden["prompts"]:
        text, n = torch.tensor(p["prompt"] + p["new"]), len(p["prompt"])
        with torch.no_grad():
            states = main_model.model(text[None]).last_hidden_state[0].double()
        chains = layer.chains(text, states, n - 1, 4)
        for k in steps:
            made = 1
            while made < new:
                drafts, stay = chains[made - 1][: min(k, new - made)], 0
                while stay < len(drafts) and drafts[stay] == p["new"][made + stay]:
                    by[k][stay] += 1
                    stay += 1
                steps[k] += 1
                made += stay + 1
    for k in steps:
        print(k, steps[k], by[k])


main()

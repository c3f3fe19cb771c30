"""DeepSeek-V4 with its MTP module in f64, token by token, after what transformers
computes and the released module (inference/model.py of the release; SGLang's
deepseek_v4_nextn.py and vLLM's deepseek_v4_mtp.py have the same): for every residual stream

  z = e_proj enorm(embedding of token i+1) + h_proj hnorm(stream as it leaves the last layer)

then a block with a window alone, a mixing of streams of its own, norm, and the main model's
head. vLLM blanks the embedding at position 0; the release does not, nor is it here.
Everything is recomputed for every text: there is no cache to be wrong."""
import numpy as np


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class V4:
    def __init__(self, c, tensors):
        self.c, self.t = c, {k: v.astype(np.float64) for k, v in tensors.items()}

    def frequencies(self, compressed):
        c = self.c
        d = c["qk_rope_head_dim"]
        i = np.arange(0, d, 2)
        if not compressed:
            return c["rope_theta"] ** (-i / d)
        theta, r = c["compress_rope_theta"], c["rope_scaling"]
        f = theta ** (-i / d)
        bound = lambda n: d * np.log(r["original_max_position_embeddings"] / (2 * np.pi * n)) / (2 * np.log(theta))
        low, high = max(np.floor(bound(r["beta_fast"])), 0), min(np.ceil(bound(r["beta_slow"])), d - 1)
        ramp = np.clip((np.arange(d // 2) - low) / (high - low if high > low else 0.001), 0, 1)
        return f / r["factor"] * ramp + f * (1 - ramp)

    def turn(self, x, position, compressed, sign=1):
        a = position * self.frequencies(compressed) * sign
        d = self.c["qk_rope_head_dim"]
        out = x.copy()
        even, odd = x[..., -d::2], x[..., -d + 1::2]
        out[..., -d::2], out[..., -d + 1::2] = even * np.cos(a) - odd * np.sin(a), odd * np.cos(a) + even * np.sin(a)
        return out

    def mix(self, name, x):
        """What a part is of, and what takes up what it says: x is [n, hidden]."""
        c, t, n = self.c, self.t, self.c["hc_mult"]
        m = t[name + "_fn"] @ rms(x.reshape(-1), 1, c["rms_norm_eps"])
        scale, base, eps = t[name + "_scale"], t[name + "_base"], c["hc_eps"]
        pre = sigmoid(m[:n] * scale[0] + base[:n]) + eps
        if len(m) == n:
            return pre @ x
        post = 2 * sigmoid(m[n:2 * n] * scale[1] + base[n:2 * n])
        comb = softmax((m[2 * n:] * scale[2] + base[2 * n:]).reshape(n, n)) + eps
        comb /= comb.sum(0, keepdims=True) + eps
        for _ in range(c["hc_sinkhorn_iters"] - 1):
            comb /= comb.sum(1, keepdims=True) + eps
            comb /= comb.sum(0, keepdims=True) + eps
        return pre @ x, lambda y: post[:, None] * y + comb.T @ x

    def entries(self, at, h, rate, dim, overlap):
        c, t = self.c, self.t
        kv, z = h @ t[at + ".wkv.weight"].T, h @ t[at + ".wgate.weight"].T
        ape, out = t[at + ".ape"], []
        for w in range(len(h) // rate):
            own = slice(w * rate, (w + 1) * rate)
            values, gates = kv[own], z[own] + ape
            if overlap:
                values, gates = values[:, dim:], gates[:, dim:]
                if w > 0:
                    before = slice((w - 1) * rate, w * rate)
                    values = np.concatenate([kv[before][:, :dim], values])
                    gates = np.concatenate([(z[before] + ape)[:, :dim], gates])
            e = rms((softmax(gates, 0) * values).sum(0), t[at + ".norm.weight"], c["rms_norm_eps"])
            out.append(self.turn(e, w * rate, True))
        return out

    def attention(self, at, h, rate, sparse):
        c, t = self.c, self.t
        eps, heads, dim = c["rms_norm_eps"], c["num_attention_heads"], c["head_dim"]
        compressed = rate > 0
        entries = self.entries(at + ".compressor", h, rate, dim, sparse) if compressed else []
        keys = self.entries(at + ".indexer.compressor", h, rate, c["index_head_dim"], True) if sparse else []
        latent = rms(h @ t[at + ".wq_a.weight"].T, t[at + ".q_norm.weight"], eps)
        kv = rms(h @ t[at + ".wkv.weight"].T, t[at + ".kv_norm.weight"], eps)
        kv = [self.turn(v, p, compressed) for p, v in enumerate(kv)]
        out = []
        for p in range(len(h)):
            q = rms((t[at + ".wq_b.weight"] @ latent[p]).reshape(heads, dim), 1, eps)
            q = self.turn(q, p, compressed)
            seen = list(range((p + 1) // rate)) if compressed else []
            if sparse and len(seen) > c["index_topk"]:
                n, d = c["index_n_heads"], c["index_head_dim"]
                iq = self.turn((t[at + ".indexer.wq_b.weight"] @ latent[p]).reshape(n, d), p, True)
                w = t[at + ".indexer.weights_proj.weight"] @ h[p] * n ** -0.5
                score = [w @ np.maximum(iq @ keys[e], 0) * d ** -0.5 for e in seen]
                seen = sorted(sorted(seen, key=lambda e: -score[e])[:c["index_topk"]])
            k = np.stack(kv[max(p - c["sliding_window"] + 1, 0):p + 1] + [entries[e] for e in seen])
            s = softmax(np.concatenate([q @ k.T * dim ** -0.5, t[at + ".attn_sink"][:, None]], 1))[:, :-1]
            o = self.turn(s @ k, p, compressed, -1).reshape(c["o_groups"], -1)
            a = t[at + ".wo_a.weight"].reshape(c["o_groups"], c["o_lora_rank"], -1)
            out.append(t[at + ".wo_b.weight"] @ np.einsum("grc,gc->gr", a, o).reshape(-1))
        return np.stack(out)

    def mlp(self, at, x):
        c, t, l = self.c, self.t, self.c["swiglu_limit"]
        g, u = np.minimum(t[at + ".w1.weight"] @ x, l), np.clip(t[at + ".w3.weight"] @ x, -l, l)
        return t[at + ".w2.weight"] @ (g * sigmoid(g) * u)

    def experts(self, at, x, token, seen=None):
        c, t = self.c, self.t
        logits = t[at + ".gate.weight"] @ x
        score = np.sqrt(np.log1p(np.exp(logits)))
        if at + ".gate.tid2eid" in t:
            chosen = t[at + ".gate.tid2eid"][token].astype(int)
        else:
            chosen = np.argsort(-(score + t[at + ".gate.bias"]), kind="stable")[:c["num_experts_per_tok"]]
        chosen = np.sort(chosen)
        w = score[chosen] / score[chosen].sum() * c["routed_scaling_factor"]
        if seen is not None:
            seen.append((logits, chosen, w))
        return sum(f * self.mlp(f"{at}.experts.{e}", x) for e, f in zip(chosen, w)) + self.mlp(at + ".shared_experts", x)

    def block(self, at, x, tokens, rate, sparse, seen=None):
        """x is [tokens, streams, hidden]."""
        eps = self.c["rms_norm_eps"]
        led = [self.mix(at + ".hc_attn", v) for v in x]
        h = np.stack([rms(v, self.t[at + ".attn_norm.weight"], eps) for v, _ in led])
        x = [up(y) for (_, up), y in zip(led, self.attention(at + ".attn", h, rate, sparse))]
        led = [self.mix(at + ".hc_ffn", v) for v in x]
        return np.stack([up(self.experts(at + ".ffn", rms(v, self.t[at + ".ffn_norm.weight"], eps), token, seen)) for (v, up), token in zip(led, tokens)])

    def main(self, tokens):
        """The streams as they leave the last layer, and the logits."""
        c, t = self.c, self.t
        x = np.repeat(t["embed.weight"][tokens][:, None], c["hc_mult"], 1)
        rates = {0: 0, 4: c["compress_rates"]["compressed_sparse_attention"], 128: c["compress_rates"]["heavily_compressed_attention"]}
        for l in range(c["num_hidden_layers"]):
            r = c["compress_ratios"][l]
            x = self.block(f"layers.{l}", x, tokens, rates[r], r == 4)
        return x, self.head("hc_head", "norm.weight", x)[1]

    def head(self, mixing, norm, x):
        normed = np.stack([rms(self.mix(mixing, v), self.t[norm], self.c["rms_norm_eps"]) for v in x])
        return normed, normed @ self.t["head.weight"].T

    def mtp(self, x, following, seen=None):
        """Of the streams of some positions and the token after each: the block's output, the normed states and logits."""
        t, eps = self.t, self.c["rms_norm_eps"]
        e = rms(t["embed.weight"][following], t["mtp.0.enorm.weight"], eps) @ t["mtp.0.e_proj.weight"].T
        z = rms(x, t["mtp.0.hnorm.weight"], eps) @ t["mtp.0.h_proj.weight"].T + e[:, None]
        y = self.block("mtp.0", z, following, 0, False, seen)
        return (y, *self.head("mtp.0.hc_head", "mtp.0.norm.weight", y))

    def generate(self, prompt, n, drafts):
        """Greedy tokens, drafts with whether they stay, main passes, and the smallest gap of the logits that were chosen from."""
        text, made, passes, list_, gap, draft = list(prompt), [], 0, [], np.inf, None

        def choose(logits):
            nonlocal gap
            order = np.argsort(-logits, kind="stable")
            gap = min(gap, logits[order[0]] - logits[order[1]])
            return int(order[0])

        while len(made) < n:
            fed = text + ([draft] if draft is not None else [])
            x, logits = self.main(np.array(fed))
            passes += 1
            text.append(choose(logits[len(text) - 1]))
            made.append(text[-1])
            if draft is not None:
                stays = draft == text[-1]
                list_.append({"position": len(text) - 1, "token": draft, "accepted": bool(stays)})
                if stays and len(made) < n:
                    text.append(choose(logits[len(text) - 1]))
                    made.append(text[-1])
            draft = None
            if drafts and len(made) < n:
                m = self.mtp(x[:len(text) - 1], np.array(text[1:]))[2]
                order = np.argsort(-m[-1], kind="stable")
                gap = min(gap, m[-1][order[0]] - m[-1][order[1]])
                draft = int(order[0])
        return made, list_, passes, float(gap)

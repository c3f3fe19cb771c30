"""Makes the GGUF files of this folder with llama.cpp.

  LLAMA_CPP=<source tree, built> MODELS=<golden models> WORK=<scratch folder> python make.py

Golden models (those of ../../../model/testdata) are converted by llama.cpp's own
converter, bf16 as they are; they have no tokenizer, so that none is written. Gemma's
pattern of windows is not its usual one, which its key then has to say.

mixed.gguf is a random llama model whose matrices llama-quantize stored in a type
each; mixed.expected.safetensors are logits of transformers' LlamaForCausalLM in f32
on what gguf-py dequantizes them to.

Made with the tree in llama_cpp_python 0.3.36 (libllama 0.5.0), transformers 5.17, torch 2.10.
"""
import json, os, pathlib, shutil, subprocess, sys
import numpy as np

LL, MODELS, WORK = (pathlib.Path(os.environ[k]) for k in ("LLAMA_CPP", "MODELS", "WORK"))
HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(LL), str(LL / "gguf-py")]
import gguf, torch
from conversion import get_model_class
from conversion.base import ModelBase

GOLDEN = ["llama_tied", "llama_rope_linear", "llama_rope_llama3", "llama_rope_yarn", "qwen2", "qwen3", "qwen3_moe", "mixtral",
          "glm4_moe_mtp", "deepseek_v3_mtp", "gemma3_text", "gpt_oss"]


def convert(name):
    src = WORK / name
    shutil.copytree(MODELS / name, src, dirs_exist_ok=True)
    config = ModelBase.load_hparams(src, False)
    if name == "gemma3_text":  # the converter counts the entries
        (src / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(config["vocab_size"])}}, "added_tokens": []}))
    cls = get_model_class(config["architectures"][0])

    def no_vocabulary(self):
        self.gguf_writer.add_tokenizer_model("none")
        self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])

    cls.set_vocab = no_vocabulary
    with torch.inference_mode():
        m = cls(src, gguf.LlamaFileType.MOSTLY_BF16, HERE / f"{name}.gguf")
        if name == "gemma3_text":
            m.gguf_writer.add_sliding_window_pattern([t == "sliding_attention" for t in config["layer_types"]])
        m.write()


HIDDEN, HEADS, KV, INNER, VOCAB = 256, 4, 2, 256, 64
TYPES = {  # of layer 0 and layer 1
    "attn_q": ("q4_k", "q5_0"), "attn_k": ("q6_k", "q8_0"), "attn_v": ("q3_k", "iq4_nl"), "attn_output": ("q2_k", "q4_0"),
    "ffn_gate": ("q5_k", "q4_1"), "ffn_up": ("iq4_xs", "q5_1"), "ffn_down": ("q4_k", "q6_k"),
}


def mixed():
    rng = np.random.default_rng(11)
    path = WORK / "f32.gguf"
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(128)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(2)
    w.add_feed_forward_length(INNER)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(HIDDEN // HEADS)
    w.add_vocab_size(VOCAB)
    w.add_tokenizer_model("none")
    matrix = lambda r, c: (rng.standard_normal((r, c)) * 1.5 / np.sqrt(c)).astype(np.float32)
    norm = lambda: (1 + 0.2 * rng.standard_normal(HIDDEN)).astype(np.float32)
    w.add_tensor("token_embd.weight", matrix(VOCAB, HIDDEN))
    w.add_tensor("output_norm.weight", norm())
    w.add_tensor("output.weight", matrix(VOCAB, HIDDEN))
    shapes = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN // 2, HIDDEN), "attn_v": (HIDDEN // 2, HIDDEN), "attn_output": (HIDDEN, HIDDEN),
              "ffn_gate": (INNER, HIDDEN), "ffn_up": (INNER, HIDDEN), "ffn_down": (HIDDEN, INNER)}
    for i in range(2):
        w.add_tensor(f"blk.{i}.attn_norm.weight", norm())
        w.add_tensor(f"blk.{i}.ffn_norm.weight", norm())
        for name, shape in shapes.items():
            w.add_tensor(f"blk.{i}.{name}.weight", matrix(*shape))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    args = []
    for name, kinds in TYPES.items():
        for i, kind in enumerate(kinds):
            args += ["--tensor-type", f"blk\\.{i}\\.{name}={kind}"]
    subprocess.run([LL / "build/bin/llama-quantize", "--token-embedding-type", "q4_0", "--output-tensor-type", "q6_k", *args, path, HERE / "mixed.gguf", "Q8_0"], check=True)

    from transformers import LlamaConfig, LlamaForCausalLM
    from safetensors.numpy import save_file
    t = {x.name: gguf.quants.dequantize(x.data, x.tensor_type) for x in gguf.GGUFReader(HERE / "mixed.gguf").tensors}
    print({x.name: x.tensor_type.name for x in gguf.GGUFReader(HERE / "mixed.gguf").tensors})

    def halves(a, heads):
        n = a.shape[0] // heads
        return a.reshape(heads, n // 2, 2, -1).swapaxes(1, 2).reshape(a.shape)

    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    state = {"model.embed_tokens.weight": t["token_embd.weight"], "model.norm.weight": t["output_norm.weight"], "lm_head.weight": t["output.weight"]}
    for i in range(2):
        for a, b in names.items():
            x = t[f"blk.{i}.{a}.weight"]
            if a in ("attn_q", "attn_k"):
                x = halves(x, HEADS if a == "attn_q" else KV)
            state[f"model.layers.{i}.{b}.weight"] = x
    cfg = LlamaConfig(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=KV, vocab_size=VOCAB,
                      rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=128, tie_word_embeddings=False, attn_implementation="eager")
    m = LlamaForCausalLM(cfg).float().eval()
    m.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v.astype(np.float32))) for k, v in state.items()})
    ids = rng.integers(0, VOCAB, (2, 40)).astype(np.int32)
    with torch.inference_mode():
        logits = m(torch.from_numpy(ids).long()).logits.numpy()
    save_file({"input_ids": ids, "logits": logits}, HERE / "mixed.expected.safetensors")


WORK.mkdir(parents=True, exist_ok=True)
for name in GOLDEN:
    convert(name)
mixed()

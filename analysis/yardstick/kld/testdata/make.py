"""Makes the files of this folder with llama.cpp, so that its numbers can be met.

  LLAMA_CPP=<source tree, built> WORK=<scratch folder> python make.py

tiny.gguf is a random llama model in F32 with a byte vocabulary of 301 tokens (odd
on purpose). llama-perplexity writes base.kld from it, then compares the model's
Q8_0 with that file and prints printed.txt. A line added to the program also writes
the logits that it is about to use: base.f32 and candidate.f32. No file of llama.cpp is in this folder.

Made with the tree that is in llama_cpp_python 0.3.36 (libllama 0.5.0), gcc 12, glibc 2.36.
"""
import os, pathlib, shutil, subprocess, sys
import numpy as np

LL, WORK = pathlib.Path(os.environ["LLAMA_CPP"]), pathlib.Path(os.environ["WORK"])
HERE = pathlib.Path(__file__).parent
BIN = LL / "build" / "bin"
sys.path.insert(0, str(LL / "gguf-py"))
import gguf

HIDDEN, LAYERS, HEADS, KV, INNER, VOCAB = 32, 2, 4, 2, 64, 301
rng = np.random.default_rng(6)


def matrix(rows, cols, scale=1.0):
    return (rng.standard_normal((rows, cols)) * scale / np.sqrt(cols)).astype(np.float32)


def model(path):
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(256)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(INNER)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(HIDDEN // HEADS)
    w.add_vocab_size(VOCAB)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    pieces = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)]
    types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    letters = "etaoinshrdlcumwfgypbvk"
    words = [c for c in letters] + ["\u2581"] + ["\u2581" + c for c in letters[:VOCAB - 259 - 23]]
    pieces += [x.encode() for x in words]
    types += [gguf.TokenType.NORMAL] * len(words)
    assert len(pieces) == VOCAB, len(pieces)
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(pieces)
    w.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(words))])
    w.add_token_types(types)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_tensor("token_embd.weight", matrix(VOCAB, HIDDEN, np.sqrt(HIDDEN)))
    norm = lambda: (1 + 0.1 * rng.standard_normal(HIDDEN)).astype(np.float32)
    for i in range(LAYERS):
        head = HIDDEN // HEADS
        for name, data in {
            "attn_norm": norm(), "attn_q": matrix(HIDDEN, HIDDEN, 2), "attn_k": matrix(KV * head, HIDDEN, 2), "attn_v": matrix(KV * head, HIDDEN, 2),
            "attn_output": matrix(HIDDEN, HIDDEN, 2), "ffn_norm": norm(), "ffn_gate": matrix(INNER, HIDDEN, 2), "ffn_up": matrix(INNER, HIDDEN, 2),
            "ffn_down": matrix(HIDDEN, INNER, 2),
        }.items():
            w.add_tensor(f"blk.{i}.{name}.weight", data)
    w.add_tensor("output_norm.weight", norm() * np.float32(0.5))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


TEXT = """A ruler that is bent measures straight things as bent. Whoever wants to know how far two
models are apart asks both the same question at every place of a text, and compares the whole
of their answers, not the one that they would have given. The first half of each chunk is not
asked: there a model has seen too little to say anything. What is kept of an answer are sixteen
bits for each token, and nothing at all of tokens that have next to no chance."""


def dumping():
    """The program with its logits written out, too."""
    src = (LL / "tools/perplexity/perplexity.cpp").read_text()
    calls = ("process_logits(n_vocab, all_logits, tokens.data() + start + seq*n_ctx + first, n_ctx - 1 - first,\n", "process_logits(logits_stream, n_vocab, all_logits,\n")
    dump = 'if (FILE * f = fopen(getenv("DUMP_LOGITS"), "ab")) { fwrite(all_logits, 4, size_t(n_vocab)*(n_ctx - 1 - first), f); fclose(f); }\n            '
    for call in calls:
        assert src.count(call) == 1
        src = src.replace(call, "{" + dump + "}" + call)
    (WORK / "perplexity.cpp").write_text(src)
    shutil.copy(LL / "tools/perplexity/main.cpp", WORK / "main.cpp")
    subprocess.run(["g++", "-O2", "-std=c++17", *(f"-I{LL}/{d}" for d in ("include", "common", "ggml/include", "vendor")), "perplexity.cpp", "main.cpp",
                    f"-L{BIN}", "-lllama-common", "-lllama", "-lggml", "-lggml-base", "-lggml-cpu", f"-Wl,-rpath,{BIN}", "-o", "dumping"], cwd=WORK, check=True)
    return WORK / "dumping"


WORK.mkdir(parents=True, exist_ok=True)
model(HERE / "tiny.gguf")
(WORK / "text.txt").write_text(TEXT.replace("\n", " "))
exact = ["-t", "2", "-fa", "off", "-ctk", "f32", "-ctv", "f32"]
base = HERE / "base.kld"
program = dumping()


def run(dump, *args):
    dump.unlink(missing_ok=True)
    out = subprocess.run([program, *args, "-c", "32", "--kl-divergence-base", base, *exact],
                         capture_output=True, text=True, check=True, env={**os.environ, "DUMP_LOGITS": str(dump)})
    return out.stdout + out.stderr


run(HERE / "base.f32", "-m", HERE / "tiny.gguf", "-f", WORK / "text.txt")
subprocess.run([BIN / "llama-quantize", HERE / "tiny.gguf", WORK / "q8.gguf", "Q8_0"], capture_output=True, check=True)
text = ""
while "Same top p:" not in text:  # some runs end before they have printed all
    text = run(HERE / "candidate.f32", "-m", WORK / "q8.gguf", "--kl-divergence")
text = text[text.index("chunk             PPL"):]
(HERE / "printed.txt").write_text(text[:text.index("Same top p:")] + text[text.index("Same top p:"):].split("\n")[0] + "\n")

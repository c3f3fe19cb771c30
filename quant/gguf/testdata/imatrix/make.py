"""Makes the importance matrices of this folder with llama.cpp's llama-imatrix.

  LLAMA_CPP=<source tree, built> MODELS=<analysis/candidate/testdata/gguf> WORK=<scratch folder> python make.py

The models have no tokenizer. Each is written again with matrices in f32 and a
vocabulary of single letters, so that a text of so many letters is so many ids, and
llama-imatrix runs on it in f32, cache included: its sums then differ from those of
another forward pass by rounding only.

  NAME.gguf        what llama-imatrix wrote
  mixtral.dat      the same sums in the older format
  big-endian.gguf  qwen3_moe.gguf in the other byte order, by gguf-py
  expected.json    ids of the text, and of each file gguf-py's view: keys, and name,
                   shape (row-major), dtype and SHA-256 of the values of each tensor

Made with the tree in llama_cpp_python 0.3.36 (libllama 0.5.0).
"""
import hashlib, json, os, pathlib, subprocess, sys
import numpy as np

LL, MODELS, WORK = (pathlib.Path(os.environ[k]) for k in ("LLAMA_CPP", "MODELS", "WORK"))
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(LL / "gguf-py"))
import gguf

NAMES = ["llama_tied", "qwen3", "qwen3_moe", "mixtral", "glm4_moe_mtp", "deepseek_v3_mtp", "gemma3_text", "gpt_oss"]
LETTERS = [chr(c) for c in range(33, 127)]
CHUNK, CHUNKS = 64, 6

# llama.cpp rounds the bounds of gpt-oss's yarn, and takes a deepseek2 that does not
# say its gating function for one with softmax.
WITHOUT = {"gpt_oss": ".rope.scaling."}
SIGMOID = {"deepseek_v3_mtp": "deepseek2.expert_gating_func"}


def with_letters(src, dst):
    r = gguf.GGUFReader(src)
    arch = r.fields["general.architecture"].contents()
    w = gguf.GGUFWriter(dst, arch)
    for f in r.fields.values():
        if (drop := WITHOUT.get(src.stem)) and drop in f.name:
            continue
        if f.name.startswith(("GGUF.", "tokenizer.")) or f.name in ("general.architecture", "general.file_type"):
            continue
        sub = f.types[-1] if f.types[0] == gguf.GGUFValueType.ARRAY else None
        w.add_key_value(f.name, f.contents(), f.types[0], sub_type=sub)
    if key := SIGMOID.get(src.stem):
        w.add_uint32(key, 2)
    vocab = int(next(t for t in r.tensors if t.name == "token_embd.weight").shape[1])
    tokens = (["<unk>", "<s>", "</s>", "\u2581"] + LETTERS)[:vocab]
    tokens += [f"[PAD{i}]" for i in range(len(tokens), vocab)]
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * vocab)
    w.add_token_types([2, 3, 3, 1] + [1] * len(LETTERS) + [5] * (vocab - 4 - len(LETTERS)))
    w.add_bos_token_id(1), w.add_eos_token_id(2), w.add_unk_token_id(0)
    w.add_add_bos_token(False), w.add_add_eos_token(False), w.add_add_space_prefix(False)
    for t in r.tensors:
        w.add_tensor(t.name, gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def view(path):
    r = gguf.GGUFReader(path)
    keys = {n: f.contents() for n, f in r.fields.items() if not n.startswith("GGUF.")}
    tensors = {t.name: [[int(d) for d in reversed(t.shape)], t.tensor_type.name, hashlib.sha256(t.data.astype("<f4").tobytes()).hexdigest()] for t in r.tensors}
    return {"keys": keys, "tensors": tensors}


def big_endian(src, dst):
    r = gguf.GGUFReader(src)
    w = gguf.GGUFWriter(dst, "", endianess=gguf.GGUFEndian.BIG)
    w.kv_data[0].clear()
    w.add_string("general.type", "imatrix")
    w.add_array("imatrix.datasets", r.fields["imatrix.datasets"].contents())
    w.add_uint32("imatrix.chunk_count", r.fields["imatrix.chunk_count"].contents())
    w.add_uint32("imatrix.chunk_size", r.fields["imatrix.chunk_size"].contents())
    for t in r.tensors:
        w.add_tensor(t.name, np.ascontiguousarray(t.data), raw_shape=[int(d) for d in reversed(t.shape)])
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


WORK.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(7)
# Of few letters, so that experts are chosen unevenly and some never.
ids = 4 + rng.choice(len(LETTERS), CHUNK * CHUNKS, p=(p := 1 / (1 + np.arange(len(LETTERS))) ** 1.5) / p.sum())
text = WORK / "letters.txt"
text.write_text("".join(LETTERS[i - 4] for i in ids))
files = {}
for name in NAMES:
    model = WORK / f"{name}.gguf"
    with_letters(MODELS / f"{name}.gguf", model)
    run = [LL / "build/bin/llama-imatrix", "-m", model, "-f", text.name, "-c", str(CHUNK), "-t", "1", "--no-ppl", "--process-output", "-ctk", "f32", "-ctv", "f32", "-fa", "off"]
    outs = [HERE / f"{name}.gguf"] + ([HERE / "mixtral.dat"] if name == "mixtral" else [])
    for out in outs:
        subprocess.run([*run, "-o", out, "--output-format", out.suffix[1:]], check=True, cwd=WORK, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files[name + ".gguf"] = view(outs[0])
big_endian(HERE / "qwen3_moe.gguf", HERE / "big-endian.gguf")
files["big-endian.gguf"] = view(HERE / "big-endian.gguf")
(HERE / "expected.json").write_text(json.dumps({"chunk": CHUNK, "ids": ids.tolist(), "files": files}, separators=(",", ":")).replace('{"keys"', '\n{"keys"') + "\n")

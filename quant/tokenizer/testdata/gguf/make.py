"""Makes vocabularies.json.gz: what llama-tokenize (llama.cpp, llama-cpp-python
0.3.36's copy) makes of ../peer/texts.json with small GGUF vocabularies.

The byte-level one is that of ../peer/gpt2.json.gz, the sentencepiece-like one that of
../peer/gemma.json.gz, with scores by order. Run: python make.py LLAMA_TOKENIZE
"""
import gzip, json, os, subprocess, sys, tempfile
import gguf

TOOL = sys.argv[1]
TEXTS = json.load(open("../peer/texts.json"))
PRES = ["default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "starcoder", "smollm", "command-r", "refact",
        "tekken", "gpt-4o", "glm4", "chatglm-bpe", "bailingmoe", "seed-coder", "bloom", "viking", "stablelm2", "olmo", ""]


def peer(name):
    return json.load(gzip.open("../peer/%s.json.gz" % name))["tokenizer"]


def ids(v):
    d = tempfile.mkdtemp()
    path, text = os.path.join(d, "v.gguf"), os.path.join(d, "t.txt")
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(512); w.add_embedding_length(64); w.add_block_count(1); w.add_feed_forward_length(64)
    w.add_head_count(1); w.add_head_count_kv(1); w.add_layer_norm_rms_eps(1e-5); w.add_rope_dimension_count(64)
    w.add_vocab_size(len(v["tokens"]))
    w.add_tokenizer_model(v["model"])
    if v["pre"]:
        w.add_tokenizer_pre(v["pre"])
    w.add_token_list(v["tokens"]); w.add_token_types(v["types"])
    if v["merges"]:
        w.add_token_merges(v["merges"])
    if v["scores"]:
        w.add_token_scores(v["scores"])
    for key, add in (("bos", w.add_bos_token_id), ("eos", w.add_eos_token_id), ("unk", w.add_unk_token_id)):
        if v[key] >= 0:
            add(v[key])
    if v["add_bos"] is not None:
        w.add_add_bos_token(v["add_bos"])
    if v["add_eos"]:
        w.add_add_eos_token(True)
    if v["add_space"] is not None:
        w.add_add_space_prefix(v["add_space"])
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    out = []
    for s in TEXTS:
        with open(text, "w", newline="") as f:
            f.write(s)
        r = subprocess.run([TOOL, "-m", path, "-f", text, "--no-escape", "--ids", "--log-disable"], capture_output=True, text=True, timeout=60)
        try:
            out.append(json.loads(r.stdout.strip().split("\n")[-1]))
        except ValueError:
            print(v["pre"], repr(s), r.returncode, r.stderr[-300:])
            out.append(None)
    return out


def main():
    cases = []
    bl = peer("llama3")
    tokens = [k for k, _ in sorted(bl["model"]["vocab"].items(), key=lambda x: x[1])] + ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "quick brown", "brown fox jumps", "[PAD525]"]
    types = [3 if t in ("<unk>", "<s>", "</s>") or t.startswith("<|") else 4 if " " in t else 5 if t.startswith("[PAD") else 1 for t in tokens]
    base = {"model": "gpt2", "tokens": tokens, "types": types, "scores": None, "merges": [" ".join(m) for m in bl["model"]["merges"]],
            "bos": 1, "eos": 2, "unk": -1, "add_bos": None, "add_eos": False, "add_space": None}
    for pre in PRES:
        cases.append(dict(base, pre=pre))
    cases.append(dict(base, pre="qwen2", add_bos=True, add_eos=True))
    cases.append(dict(base, pre="llama-bpe", add_bos=False))
    g = peer("gemma")
    tokens = [k for k, _ in sorted(g["model"]["vocab"].items(), key=lambda x: x[1])]
    merged = {a + b: i for i, (a, b) in reversed(list(enumerate(g["model"]["merges"])))}
    scores = [-float(merged.get(t, 10000)) for t in tokens]
    types = [2 if t == "<unk>" else 3 if t in ("<s>", "</s>") else 6 if t.startswith("<0x") else 1 for t in tokens]
    for t in ("\n\n", "▁▁", "<mask>", "\n\n\n"):
        tokens.append(t); scores.append(-1000.0); types.append(4)
    spm = {"model": "llama", "pre": "default", "tokens": tokens, "types": types, "scores": scores, "merges": None,
           "bos": 1, "eos": 2, "unk": 0, "add_bos": None, "add_eos": False, "add_space": None}
    cases.append(spm)
    cases.append(dict(spm, add_space=False, add_bos=True))
    cases.append(dict(spm, add_space=True, add_bos=True, add_eos=True))
    gm = {"model": "gemma4", "pre": "", "tokens": tokens, "types": types, "scores": scores, "merges": [" ".join(m) for m in g["model"]["merges"]],
          "bos": 1, "eos": 2, "unk": 0, "add_bos": None, "add_eos": False, "add_space": None}
    cases.append(gm)
    shared = {"bytes": {k: base[k] for k in ("tokens", "types", "merges")}, "pieces": {"tokens": tokens, "types": spm["types"], "scores": scores, "merges": gm["merges"]}}
    out = []
    for c in cases:
        r = {k: c[k] for k in ("model", "pre", "bos", "eos", "unk", "add_bos", "add_eos", "add_space")}
        r["vocabulary"] = "bytes" if c["model"] == "gpt2" else "pieces"
        r["ids"] = ids(c)
        out.append(r)
    with gzip.GzipFile("vocabularies.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps({"vocabularies": shared, "cases": out}, ensure_ascii=True, separators=(",", ":")).encode())


main()

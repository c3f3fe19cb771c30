"""A golden model as a checkpoint folder that every command takes.

The goldens are weights and a config. Here they get a tokenizer of one character a
token, as many as the vocabulary has, and a chat template.
"""

import json
import os
import shutil
import sys


def vocabulary(size):
    """Specials first, then characters."""
    vocab = {"<unk>": 0, "<bos>": 1, "<end>": 2, "<|user|>": 3, "<|assistant|>": 4, "\n": 5}
    for c in [*range(0x20, 0x7F), *range(0xC0, 0x250)]:
        if len(vocab) == size:
            break
        vocab[chr(c)] = len(vocab)
    if len(vocab) != size:
        raise SystemExit(f"a vocabulary of {size} tokens has no characters here")
    return vocab


def make(source, folder):
    os.makedirs(folder)
    for name in os.listdir(source):
        if name != "config.hub.json":
            shutil.copy(os.path.join(source, name), folder)
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    vocab = vocabulary(config.get("text_config", config)["vocab_size"])
    for part in (config, config.get("text_config", {})):
        part.pop("eos_token_id", None)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    marks = [t for t in vocab if len(t) > 1]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": vocab[t], "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False} for t in marks],
        "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []},
    }
    template = ("{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{{ m.content }}<end>{% else %}<|user|>{{ m.content }}{% endif %}{% endfor %}"
                "{% if add_generation_prompt %}<|assistant|>{% endif %}")
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(tokenizer, f)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"bos_token": "<bos>", "chat_template": template}, f)


if __name__ == "__main__":
    make(sys.argv[1], sys.argv[2])

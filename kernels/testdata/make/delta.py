"""Cuts layer 0 of a model with its intermediates out of the reference models:
what golden/delta_*.safetensors hold.

    python delta.py MODELS OUT

MODELS has NAME/model.safetensors and NAME.expected.safetensors of qwen3_next and
qwen3_5, as analysis/model/testdata has them, and NAME.linear0.safetensors: what goes in
and out of each step of layer 0 in transformers 5.17, with the recurrent form's states.
"""
import json
import struct
import sys
from pathlib import Path


def read(path):
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    body = raw[8 + size :]
    return {k: (v["dtype"], v["shape"], body[slice(*v["data_offsets"])]) for k, v in header.items()}


def write(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


models, out = map(Path, sys.argv[1:])
for name in ["qwen3_next", "qwen3_5"]:
    tensors = read(models / f"{name}.linear0.safetensors")
    for full, t in read(models / name / "model.safetensors").items():
        short = full.removeprefix("model.language_model.").removeprefix("model.")
        if short == "embed_tokens.weight" or short.startswith(("layers.0.linear_attn", "layers.0.input_layernorm")):
            tensors[short.removeprefix("layers.0.").removeprefix("linear_attn.")] = t
    expected = read(models / f"{name}.expected.safetensors")
    for ids in ["input_ids", "long.input_ids"]:
        dtype, shape, data = expected[ids]
        tensors[ids] = (dtype, shape[1:], data[: 4 * shape[1]])  # of the first sequence
    write(out / f"delta_{name}.safetensors", tensors)

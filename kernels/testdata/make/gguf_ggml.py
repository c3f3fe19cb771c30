"""Writes golden/gguf_ggml.safetensors: blocks that ggml makes of small matrices.

    python kernels/testdata/make/gguf_ggml.py quant/demo/data/model/model-00001-of-00002.safetensors libggml-base.so OUT

ggml_quantize_chunk is what llama-quantize calls for each tensor. Matrices: rows of the
demo's weights, gaussian ones and a heavy-tailed one (Student's t of 3 degrees). Names:
MATRIX.x, MATRIX.importance, MATRIX.TYPE.bytes, MATRIX.TYPE.weighted.bytes.
"""
import ctypes
import sys

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

TYPES = {"Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ4_NL": 20,
         "IQ4_XS": 23, "TQ1_0": 34, "TQ2_0": 35, "MXFP4": 39, "NVFP4": 40}


def main(demo, library, out):
    lib = ctypes.CDLL(library)
    for name in ("ggml_row_size", "ggml_quantize_chunk"):
        getattr(lib, name).restype = ctypes.c_size_t
    lib.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    rng = np.random.default_rng(8)
    rows, cols = 12, 512
    matrices = {"gaussian": rng.normal(0, 0.02, (rows, cols)), "heavy": rng.standard_t(3, (rows, cols)) * 0.01}
    with safe_open(demo, "pt") as f:
        for i, name in enumerate(n for n in sorted(f.keys()) if n.endswith(("q_proj.weight", "down_proj.weight", "gate_proj.weight"))):
            w = f.get_tensor(name).to(torch.float32).numpy().reshape(-1)
            if i % 9 == 0 and w.size >= rows * cols and len(matrices) < 5:
                matrices[f"demo{len(matrices) - 2}"] = w[: rows * cols].reshape(rows, cols)
    tensors = {}
    for name, m in matrices.items():
        x = np.ascontiguousarray(m, np.float32)
        importance = np.exp(rng.normal(0, 1.5, cols)).astype(np.float32)
        tensors[name + ".x"], tensors[name + ".importance"] = x, importance
        for kind, number in TYPES.items():
            for weighted in (False, True):
                y = np.zeros((rows, lib.ggml_row_size(number, cols)), np.uint8)
                imp = importance.ctypes.data if weighted else None
                assert lib.ggml_quantize_chunk(number, x.ctypes.data, y.ctypes.data, 0, rows, cols, imp) == y.size
                tensors[f"{name}.{kind}.{'weighted.' if weighted else ''}bytes"] = y
    save_file(tensors, out)


main(*sys.argv[1:])

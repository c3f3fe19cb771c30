#!/usr/bin/env python3
"""Writes quant/layout/testdata/golden/deepseek_v4.safetensors: matrices as DeepSeek-V4 stores
them and what transformers dequantizes them to. Needs torch, transformers 5.24, safetensors.

    deepseekvectors.py FILE"""
import sys

import torch
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

decode = Fp8Dequantize(None)._dequantize_one


def main(path):
    rng = torch.Generator().manual_seed(20261130)
    out = {}

    def add(name, weight, scale, dequant):
        out.update({name + ".weight": weight, name + ".scale": scale, name + ".dequant": dequant})

    e8m0 = torch.float8_e8m0fnu
    codes = torch.randint(0, 256, (6, 48), generator=rng, dtype=torch.uint8)
    exponents = torch.randint(105, 128, (6, 3), generator=rng, dtype=torch.uint8)
    add("fp4", codes.view(torch.int8), exponents.view(e8m0), decode(codes.view(torch.int8), exponents, torch.float32))
    # In tiles of 16×32, so that there are some.
    dense = torch.randn(32, 64, generator=rng).to(torch.float8_e4m3fn)
    tiles = torch.randint(100, 130, (2, 2), generator=rng, dtype=torch.uint8)
    add("fp8", dense, tiles.view(e8m0), decode(dense, tiles.view(e8m0), torch.float32))
    power = torch.exp2(tiles.float() - 127)
    add("fp8_f32", dense, power, decode(dense, power, torch.float32))
    one = torch.tensor(0.0173, dtype=torch.bfloat16)
    small = dense[:8].contiguous()
    add("one", small, one, decode(small, one.reshape(1, 1)))
    save_file({k: v.clone() for k, v in out.items()}, path)


if __name__ == "__main__":
    main(*sys.argv[1:])

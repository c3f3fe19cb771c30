"""Writes gguf_grids.bin: the grids of GGUF's IQ types as gguf-py 0.19 packs them.

    python kernels/testdata/make/gguf_grids.py kernels/gguf_grids.bin

One after the other: IQ2_XXS, IQ2_XS, IQ2_S, IQ1_S (which IQ1_M shares), two bits an
element; IQ3_XXS and IQ3_S, four bits an element. Lowest bits are the first element.
"""
import sys

from gguf import quants

with open(sys.argv[1], "wb") as out:
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_S", "IQ3_XXS", "IQ3_S"):
        out.write(bytes.fromhex(getattr(quants, name).grid_hex.decode()))

# The eighth sign is the parity of the other seven, so the table of signs is not kept.
assert all(b == i | (i.bit_count() & 1) << 7 for i, b in enumerate(quants.IQ2_XXS.ksigns))

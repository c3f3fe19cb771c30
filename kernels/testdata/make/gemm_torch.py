"""f32 product of 2048×2048 matrices: torch's torch.mm and this package's, in turn.

    python gemm_torch.py [ROUNDS [THREADS]]     from kernels/, with torch 2.10 and Go

Each round times torch (the best of eight products after two to warm up), then
each set's BenchmarkGEMM (the best of eight), and prints GFLOP/s and the ratio;
the last line is the median of the rounds' ratios.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch

N = 2048
FLOPS = 2 * N**3


def torch_rate(a, b):
    for _ in range(2):
        torch.mm(a, b.T)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        torch.mm(a, b.T)
        best = min(best, time.perf_counter() - start)
    return FLOPS / best / 1e9


def our_rates(binary, threads):
    out = subprocess.run(
        [binary, "-test.run", "^$", "-test.bench", f"^BenchmarkGEMM$/.*/threads={threads}/", "-test.benchtime", "8x"],
        check=True, capture_output=True, text=True, env=dict(os.environ, GOMAXPROCS=str(threads)),
    ).stdout
    return {m[1]: float(m[2]) for m in re.finditer(r"BenchmarkGEMM/(\w+)/.*?([\d.]+) best-GFLOP/s", out)}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
    torch.set_num_threads(threads)
    a, b = torch.randn(N, N), torch.randn(N, N)
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "kernels.test")
        subprocess.run(["go", "test", "-c", "-o", binary, "."], check=True)
        for _ in range(rounds):
            theirs = torch_rate(a, b)
            print(f"torch {torch.__version__} {theirs:.0f} GFLOP/s", end="")
            for name, ours in our_rates(binary, threads).items():
                ratios.setdefault(name, []).append(ours / theirs)
                print(f"   {name} {ours:.0f} ({ours / theirs:.2f})", end="")
            print(flush=True)
    print("median ratio " + "   ".join(f"{name} {statistics.median(r):.2f}" for name, r in ratios.items()))


if __name__ == "__main__":
    main()

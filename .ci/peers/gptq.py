"""Times llm-compressor's GPTQ on this machine's CPU, for the ratios of docs/bench.

    gptq.py [--threads N] [--moe]

One matrix of 2048×2048 after 2,048 tokens (accumulate_hessian, quantize_weight,
int4 in groups of 128 with zero points); with --moe a layer of 64 experts, hidden
size 2048, inner size 1024, the best 8 of each of 4,096 tokens: every expert's gate and
up from the tokens routed to it, and its down. Best of several runs, in
seconds of the clock and, in brackets, of all cores together. `go test ./kernels -run '^$' -bench 'GPTQ(Layer)?$'` times the same here,
but that gate and up share one Hessian over all tokens.
Wants a virtual environment as .ci/peers/run makes it.
"""

import argparse
import time

import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.utils import calculate_qparams
from llmcompressor.modifiers.gptq.gptq_quantize import quantize_weight
from llmcompressor.modifiers.gptq.helpers import accumulate_hessian, make_empty_hessian

ARGS = QuantizationArgs(num_bits=4, type="int", symmetric=False, strategy="group", group_size=128)


def parameters(weights):
    """Scale and zero point of each group, from its least and largest weight."""
    groups = weights.reshape(*weights.shape[:-1], -1, ARGS.group_size)
    return calculate_qparams(groups.amin(-1), groups.amax(-1), ARGS)


def hessian(module, inputs):
    h = make_empty_hessian(module)
    count = torch.zeros(tuple(), dtype=torch.int)
    return accumulate_hessian(inputs, module, h, count)[0]


def quantize(weights, hessians):
    """quantize_weight of matrices of one shape; it uses up what it is given."""
    scale, zero = parameters(weights)
    return quantize_weight(weights.clone(), hessians, scale, zero, None, ARGS)


def timed(run, times):
    """Least seconds of the clock, and of the cores."""
    wall = cores = float("inf")
    for _ in range(times):
        start, cpu = time.perf_counter(), time.process_time()
        run()
        wall, cores = min(wall, time.perf_counter() - start), min(cores, time.process_time() - cpu)
    return wall, cores


def shown(*times):
    return f"{sum(t[0] for t in times):.3f} ({sum(t[1] for t in times):.3f})"


def linear(rows, columns):
    module = torch.nn.Linear(columns, rows, bias=False)
    module.weight.data.normal_()
    return module


def one_matrix():
    module, inputs = linear(2048, 2048), torch.randn(2048, 2048)
    h = hessian(module, inputs)
    return {
        "hessian": timed(lambda: hessian(module, inputs), 5),
        "quantize": timed(lambda: quantize(module.weight.data[None], h.clone()[None]), 5),
    }


def moe_layer(batch):
    """64 experts, batch of them at a time."""
    experts, hidden, inner, tokens = 64, 2048, 1024, 4096 * 8 // 64
    gate, up, down = linear(inner, hidden), linear(inner, hidden), linear(hidden, inner)
    x, y = torch.randn(tokens, hidden), torch.randn(tokens, inner)

    def run():
        for _ in range(experts // batch):
            for module, inputs in (gate, x), (up, x), (down, y):
                weights = module.weight.data.expand(batch, -1, -1)
                quantize(weights, torch.stack([hessian(module, inputs) for _ in range(batch)]))

    return timed(run, 1)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--moe", action="store_true")
    options = options.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    with torch.no_grad():
        parts = one_matrix()
        print("matrix   " + "  ".join(f"{k} {shown(t)}" for k, t in parts.items()) + f"  together {shown(*parts.values())}", flush=True)
        if options.moe:
            times = {batch: moe_layer(batch) for batch in (1, 8)}
            print("layer    " + "  ".join(f"{n} at a time {shown(t)}" for n, t in times.items()))


if __name__ == "__main__":
    main()

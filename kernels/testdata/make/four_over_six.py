"""Makes ../golden/nvfp4_four_over_six.safetensors with nvidia-modelopt.

    pip install nvidia-modelopt==0.47.0 torch==2.10.0 safetensors numpy requests huggingface_hub
    python four_over_six.py

ModelOpt chooses between 6 and 4 with its Triton kernel; on a machine without
CUDA it runs in Triton's interpreter, for which three things are put in place
here: the kernel, which is imported only where CUDA is found, a device context
that does nothing, and isnan, which the interpreter cannot take from CUDA's
device library. Inputs come from a seeded generator of numpy, so that another
run gives the same file.
"""

import contextlib
import copy
import os
import pathlib
import types

os.environ["TRITON_INTERPRET"] = "1"

import modelopt.torch.kernels.quantization.gemm as gemm
import modelopt.torch.quantization as mtq
import numpy as np
import torch
import triton
import triton.language as tl  # noqa: F401  the interpreter looks for it beside isnan
from modelopt.torch.kernels.quantization.common import nvfp4_quant
from modelopt.torch.kernels.quantization.gemm import fp4_kernel
from modelopt.torch.quantization.qtensor import NVFP4QTensor
from safetensors.torch import save_file


@triton.jit
def isnan(x):
    return x != x


nvfp4_quant.libdevice = types.SimpleNamespace(isnan=isnan)
gemm.static_blockwise_fp4_fake_quant = fp4_kernel.static_blockwise_fp4_fake_quant
gemm.IS_AVAILABLE = True
torch.cuda.device = lambda _: contextlib.nullcontext()


def weights():
    rng = np.random.default_rng(46)
    gaussian = 0.02 * rng.standard_normal((48, 256))
    heavy = 0.02 * rng.standard_t(3, (32, 160))
    zeros = 0.05 * rng.standard_normal((16, 64))
    zeros[rng.random((16, 4)).repeat(16, axis=1) < 0.4] = 0
    range24 = rng.standard_normal((16, 128)) * np.exp2(-rng.integers(0, 24, (16, 8))).repeat(16, axis=1)
    return {"gaussian": gaussian, "heavy_tail": heavy, "zero_blocks": zeros, "range24": range24}


def quantize(w):
    linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False).to(torch.bfloat16)
    with torch.no_grad():
        linear.weight.copy_(w)
    model = mtq.quantize(torch.nn.Sequential(linear), copy.deepcopy(mtq.NVFP4_FOUR_OVER_SIX_CFG), forward_loop=None)
    quantizer, weight = model[0].weight_quantizer, model[0].weight.detach()
    scale, scale_2 = NVFP4QTensor.get_weights_scaling_factor_from_quantizer(quantizer, weight)
    packed, scale, scale_2 = NVFP4QTensor.quantize(weight, 16, scale, scale_2)
    decoded = packed.dequantize(torch.float32, scale=scale, double_scale=scale_2, block_sizes={-1: 16})
    error = (weight.double() - decoded.double()).square().reshape(-1, 16).sum(1)
    return {
        "w": weight,
        "block_amax": quantizer._amax.float().flatten(),
        "weight": packed._quantized_data,
        "weight_scale": scale,
        "weight_scale_2": scale_2.float().reshape([]),
        "dequant_f32": decoded,
        "block_sse": error,
    }


if __name__ == "__main__":
    tensors = {}
    for name, w in weights().items():
        for key, value in quantize(torch.from_numpy(w).to(torch.bfloat16)).items():
            tensors[f"{name}.{key}"] = value.contiguous().clone()
    out = pathlib.Path(__file__).resolve().parent.parent / "golden" / "nvfp4_four_over_six.safetensors"
    save_file(tensors, out, metadata={"made_by": f"nvidia-modelopt 0.47.0, torch {torch.__version__}"})

"""Holds llama.cpp's logits of files that this program writes in F32 against transformers'.

  LLAMA_CPP=<source tree, built> GGUF=<folder of NAME.gguf> MODELS=<golden models> WORK=<scratch folder> python llama.py NAME…

The files are those of `quantscope quantize MODEL --layout gguf --variant f32`: matrices in bf16 are multiplied
by activations that llama.cpp rounds to bf16 first. Cache and scores are in f32.
"""
import os, pathlib, subprocess, sys
import numpy as np
from safetensors.numpy import load_file

LL, GGUF, MODELS, WORK = (pathlib.Path(os.environ[k]) for k in ("LLAMA_CPP", "GGUF", "MODELS", "WORK"))
LIB = LL / "build/bin"
subprocess.run(["cc", "-O1", pathlib.Path(__file__).parent / "logits.c", f"-I{LL}/include", f"-I{LL}/ggml/include", f"-L{LIB}", "-lllama", "-lggml", "-lggml-base", "-lggml-cpu",
                f"-Wl,-rpath,{LIB}", "-o", WORK / "logits"], check=True)
for name in sys.argv[1:]:
    e = load_file(MODELS / f"{name}.expected.safetensors")
    ids = e["input_ids"].astype(np.int32)
    ids.tofile(WORK / "ids")
    subprocess.run([WORK / "logits", GGUF / f"{name}.gguf", WORK / "ids", *map(str, ids.shape), WORK / "out"], check=True, stdout=subprocess.DEVNULL, timeout=100)
    print(name, np.abs(np.fromfile(WORK / "out", np.float32).reshape(e["logits"].shape) - e["logits"]).max())

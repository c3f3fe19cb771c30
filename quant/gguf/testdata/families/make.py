"""Makes the GGUF files of this folder with llama.cpp's own converter.

  LLAMA_CPP=<source tree> MODELS=<golden models> WORK=<scratch folder> python make.py [name…]

The golden models are converted as they are, matrices in bf16, without a tokenizer.
What the converter is given beyond a model's folder:

  qwen3_next, qwen3_5, qwen3_5_moe   --no-mtp: it wants MTP layers otherwise, and the golden models have none
  qwen3_5_mtp                        the golden model qwen3_5 with an MTP layer made of its own tensors: see mtp()
  step3p7                            config.hub.json, because the converter reads the released spelling only, with
                                     norm_expert_weight, which it lacks: llama.cpp divides no weights without it
  step3p7_mtp                        the same with an MTP layer made of its own tensors
  deepseek_v4                        config.hub.json with the compression of the model, 16, in place of the released
                                     128; experts are stacked in bf16, because the converter takes those of the
                                     release only, which are MXFP4 with scales beside them
  gemma4_*                           an empty tokenizer.json, whose entries the converter counts

Made with the tree in llama_cpp_python 0.3.36 (libllama 0.5.0) and torch 2.15.
"""
import json, os, pathlib, shutil, sys

LL, MODELS, WORK = (pathlib.Path(os.environ[k]) for k in ("LLAMA_CPP", "MODELS", "WORK"))
HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(LL), str(LL / "gguf-py")]
import gguf, torch
from safetensors.torch import load_file, save_file
from conversion import get_model_class
from conversion.base import LazyTorchTensor

NAMES = ["qwen3_next", "qwen3_5", "qwen3_5_mtp", "qwen3_5_moe", "step3p7", "step3p7_mtp", "deepseek_v2", "deepseek_v4", "gemma4_moe", "gemma4_ple"]


def mtp(name, t, config):
    """An MTP layer that is a layer of the model again, with parts of others beside it."""
    if name == "qwen3_5_mtp":
        p = "model.language_model.layers."
        for k in [k for k in t if k.startswith(p + "3.")]:
            t["mtp.layers.0." + k.removeprefix(p + "3.")] = t[k].clone()
        t["mtp.fc.weight"] = torch.cat([t[p + f"{i}.linear_attn.out_proj.weight"] for i in (0, 1)], 1)
        t["mtp.pre_fc_norm_embedding.weight"] = t[p + "0.input_layernorm.weight"].clone()
        t["mtp.pre_fc_norm_hidden.weight"] = t[p + "1.input_layernorm.weight"].clone()
        t["mtp.norm.weight"] = t[p + "2.input_layernorm.weight"].clone()
        config["text_config"]["mtp_num_hidden_layers"] = 1
    if name == "step3p7_mtp":
        p = "model.layers."
        for k in [k for k in t if k.startswith(p + "1.self_attn.") or k.startswith(p + "1.input_layernorm.") or k.startswith(p + "1.post_attention_layernorm.")]:
            t[p + "3." + k.removeprefix(p + "1.")] = t[k].clone()
        for k in ("gate_proj", "up_proj", "down_proj"):
            t[p + f"3.mlp.{k}.weight"] = t[p + f"0.mlp.{k}.weight"].clone()
        t[p + "3.eh_proj.weight"] = torch.cat([t[p + f"{i}.self_attn.o_proj.weight"] for i in (0, 2)], 1)
        t[p + "3.enorm.weight"] = t[p + "0.input_layernorm.weight"].clone()
        t[p + "3.hnorm.weight"] = t[p + "1.input_layernorm.weight"].clone()
        t[p + "3.transformer.shared_head.norm.weight"] = t[p + "2.input_layernorm.weight"].clone()
        t[p + "3.transformer.shared_head.output.weight"] = t["lm_head.weight"].clone()
        c = config["text_config"]
        c["num_nextn_predict_layers"] = 1
        c["layer_types"].append("sliding_attention")
        c["partial_rotary_factors"].append(1.0)
        c["rope_theta"].append(10000.0)
        for k in ("swiglu_limits", "swiglu_limits_shared"):
            c[k].append(0.0)


def convert(name):
    src = WORK / name
    shutil.rmtree(src, ignore_errors=True)
    src.mkdir(parents=True)
    golden = MODELS / name.removesuffix("_mtp")
    config = json.loads((golden / ("config.hub.json" if name.startswith("step") or name == "deepseek_v4" else "config.json")).read_text())
    t = load_file(golden / "model.safetensors")
    mtp(name, t, config)
    if name.startswith("step"):
        config["text_config"]["norm_expert_weight"] = True
    if name == "deepseek_v4":
        config["compress_ratios"] = [config["compress_rates"]["heavily_compressed_attention"] if r == 128 else r for r in config["compress_ratios"]]
    (src / "config.json").write_text(json.dumps(config))
    save_file({k: v.contiguous() for k, v in t.items()}, src / "model.safetensors", {"format": "pt"})
    if name.startswith("gemma4"):
        (src / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(config["vocab_size"])}}, "added_tokens": []}))
    cls = get_model_class(config["architectures"][0])

    def no_vocabulary(self):
        self.gguf_writer.add_tokenizer_model("none")
        self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])

    def experts(self, bid, proj, key):
        names = [f"layers.{bid}.ffn.experts.{e}.{proj}.weight" for e in range(self.hparams["n_routed_experts"])]
        data = torch.stack([LazyTorchTensor.to_eager(self.model_tensors[n]()).float() for n in names]).numpy()
        kind = gguf.GGMLQuantizationType.BF16
        self.gguf_writer.add_tensor(self.format_tensor_name(key, bid), gguf.quants.quantize(data, kind), raw_dtype=kind)
        return names

    cls.set_vocab = no_vocabulary
    cls.no_mtp = name.startswith("qwen") and not name.endswith("_mtp")
    if name == "deepseek_v4":
        cls._write_mxfp4_expert_tensor = experts
    with torch.inference_mode():
        m = cls(src, gguf.LlamaFileType.MOSTLY_BF16, HERE / f"{name}.gguf", hparams=config)
        m.gguf_writer.kv_data[0].pop("tokenizer.chat_template", None)
        m.write()


WORK.mkdir(parents=True, exist_ok=True)
for name in sys.argv[1:] or NAMES:
    convert(name)

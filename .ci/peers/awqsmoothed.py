#!/usr/bin/env python3
"""Writes a small model that llm-compressor's AWQ smoothed and quantized: analysis/align/testdata/awq.
Needs torch, transformers, llmcompressor 0.14.

    awqsmoothed.py SOURCE DIR     SOURCE is analysis/model/testdata/llama_untied"""
import sys

import torch
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modifiers.awq import AWQModifier
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast


torch.Tensor.pin_memory = lambda self, *_: self  # there is no GPU to pin for


def processor():
    """A tokenizer that nobody asks anything."""
    tokenizer = Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a"))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="a")


def main(source, out):
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    with torch.no_grad():  # inputs of unlike sizes, as trained models have
        for layer in model.model.layers:
            for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                norm.weight.mul_(torch.exp(torch.randn_like(norm.weight.float())).to(torch.bfloat16))
    model.save_pretrained(out + "/master")
    ids = torch.randint(3, model.config.vocab_size, (16, 64)).tolist()
    data = Dataset.from_dict({"input_ids": ids, "attention_mask": [[1] * 64] * 16})
    group = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": False, "strategy": "group", "group_size": 16}}
    recipe = [AWQModifier(ignore=["lm_head"], config_groups={"group_0": group}, duo_scaling=True)]
    oneshot(model=model, dataset=data, recipe=recipe, num_calibration_samples=16, max_seq_length=64, pipeline="sequential", processor=processor())
    model.save_pretrained(out + "/awq", save_compressed=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

package ggufmake

import "strings"

// scaledModules are the weights that llama.cpp (libllama 0.5.0, src/models)
// multiplies by a scale beside them, by architecture: elsewhere it reads the scale
// and leaves it out, without a word.
var scaledModules = func() map[string]map[string]bool {
	attention := []string{"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output"}
	dense := []string{"ffn_gate", "ffn_up", "ffn_down"}
	experts := []string{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}
	m := map[string]map[string]bool{}
	for arch, lists := range map[string][][]string{
		"llama": {attention, dense, experts}, "qwen2": {attention}, "qwen3": {attention, dense}, "qwen3moe": {attention, experts},
		"glm4moe": {attention, {"nextn.eh_proj"}}, "gemma3": {attention}, "gpt-oss": {attention}, "deepseek2": {{"attn_output"}},
	} {
		m[arch] = map[string]bool{}
		for _, l := range lists {
			for _, name := range l {
				m[arch][name] = true
			}
		}
	}
	return m
}()

// appliesScale says whether llama.cpp multiplies by the scale beside a weight.
func appliesScale(arch, name string) bool {
	modules, ok := scaledModules[arch]
	if name == "output.weight" {
		return ok
	}
	module, found := strings.CutSuffix(name, ".weight")
	if rest, layer := strings.CutPrefix(module, "blk."); layer && found {
		_, module, _ = strings.Cut(rest, ".")
	}
	return modules[module]
}

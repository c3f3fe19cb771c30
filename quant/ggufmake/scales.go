package ggufmake

import (
	"math"
	"strconv"
	"strings"
)

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
		"glm4moe": {attention}, "gemma3": {attention}, "gpt-oss": {attention}, "deepseek2": {{"attn_output"}},
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

// appliesScale says whether llama.cpp multiplies by the scale beside a weight. first is
// the number of the first MTP layer: llama.cpp does not load these unless it drafts
// with them, and then refuses a file whose scales it has not asked for.
func appliesScale(arch, name string, first int) bool {
	modules, ok := scaledModules[arch]
	if name == "output.weight" {
		return ok
	}
	module, found := strings.CutSuffix(name, ".weight")
	if rest, layer := strings.CutPrefix(module, "blk."); layer && found {
		var digits string
		digits, module, _ = strings.Cut(rest, ".")
		if n, err := strconv.Atoi(digits); err != nil || n >= first {
			return false
		}
	}
	return modules[module]
}

// firstMTP is the number of the first MTP layer, of a file without any a number that
// no layer has.
func (s *Source) firstMTP() int {
	count := func(key string) uint64 {
		for _, p := range s.Pairs {
			if n, ok := p.Value.V.(uint64); ok && p.Key == s.Arch+"."+key {
				return n
			}
		}
		return 0
	}
	blocks, next := count("block_count"), count("nextn_predict_layers")
	if next == 0 || next > blocks || blocks > math.MaxInt32 {
		return math.MaxInt
	}
	return int(blocks - next)
}

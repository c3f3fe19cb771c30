package logs

import "strings"

// Tools whose lines are recognized.
const (
	llmCompressor = "llm-compressor"
	modelOpt      = "ModelOpt"
	gptqModel     = "GPTQModel"
	autoRound     = "AutoRound"
	llamaQuantize = "llama-quantize"
	vllm          = "vLLM"
	sglang        = "SGLang"
	transformers  = "transformers"
)

// tools are recognized by words that stand in their own lines.
var tools = []struct{ word, name string }{
	{"llmcompressor", llmCompressor}, {"compressed_tensors", llmCompressor}, {"oneshot", llmCompressor},
	{"modelopt", modelOpt}, {"gptqmodel", gptqModel}, {"auto_round", autoRound}, {"autoround", autoRound},
	{"llama_model_quantize", llamaQuantize}, {"llama_quantize:", llamaQuantize}, {"vllm", vllm}, {"sglang", sglang},
	{"transformers.modeling_utils", transformers}, {"some weights of", transformers},
}

// sign is something that lines say: all of its words, in lower case, in this order.
type sign struct {
	id    string
	tool  string
	words []string
	not   []string // words that make it something else
}

// find is the place of the sign's first word in a line, -1 where it does not fit.
func (s *sign) find(low string) int {
	first, from := -1, 0
	for _, w := range s.words {
		i := strings.Index(low[from:], w)
		if i < 0 {
			return -1
		}
		if first < 0 {
			first = i
		}
		from += i + len(w)
	}
	for _, w := range s.not {
		if strings.Contains(low, w) {
			return -1
		}
	}
	return first
}

// signs are what lines say, the most particular first: a line counts once. The
// tool is "" for what several say.
var signs = []sign{
	{id: "log-uniform-observer", tool: llmCompressor, words: []string{"falling back to uniform"}},
	{id: "log-uniform-observer", words: []string{"no importance data"}},
	{id: "log-uniform-observer", tool: llamaQuantize, words: []string{"did not find weights for"}},
	{id: "log-uniform-observer", tool: llamaQuantize, words: []string{"imatrix size", "is different from tensor size"}},
	{id: "log-uniform-observer", tool: modelOpt, words: []string{"falling back to plain mse"}},
	{id: "log-uniform-observer", tool: modelOpt, words: []string{"is equivalent to plain max calibration"}},

	{id: "log-uncalibrated", tool: modelOpt, words: []string{"never activated the corresponding layer or expert"}},
	{id: "log-uncalibrated", tool: modelOpt, words: []string{"is not calibrated"}},
	{id: "log-uncalibrated", tool: modelOpt, words: []string{"awq_lite: disabling for"}},
	{id: "log-uncalibrated", words: []string{"expert", "not calibrated"}},
	{id: "log-uncalibrated", words: []string{"expert", "no calibration"}},
	{id: "log-uncalibrated", words: []string{"expert", "received no tokens"}},
	{id: "log-uncalibrated", words: []string{"not calibrated"}, not: []string{"expected"}},
	{id: "log-uncalibrated", words: []string{"uncalibrated"}},
	{id: "log-uncalibrated", tool: autoRound, words: []string{"falls back to unit scale"}},
	{id: "log-uncalibrated", tool: gptqModel, words: []string{"fallback quantization (observed"}},
	{id: "log-uncalibrated", tool: gptqModel, words: []string{"no usable hessian"}},
	{id: "log-uncalibrated", tool: vllm, words: []string{"scaling factor 1.0"}},

	{id: "log-missing-keys", words: []string{"missing key"}},
	{id: "log-missing-keys", words: []string{"missing keys"}},
	{id: "log-missing-keys", tool: transformers, words: []string{"were not initialized from the model checkpoint"}},
	{id: "log-missing-keys", tool: vllm, words: []string{"weights were not initialized from checkpoint"}},
	{id: "log-missing-keys", words: []string{"newly initialized"}},
	{id: "log-missing-keys", tool: transformers, words: []string{"| missing"}},
	{id: "log-missing-keys", tool: llamaQuantize, words: []string{"missing tensor"}},
	{id: "log-unexpected-keys", words: []string{"unexpected key"}},
	{id: "log-unexpected-keys", tool: transformers, words: []string{"were not used when initializing"}},
	{id: "log-unexpected-keys", tool: transformers, words: []string{"| unexpected"}},
	{id: "log-unexpected-keys", tool: sglang, words: []string{"parameter", "not found in params_dict"}},
	{id: "log-unexpected-keys", words: []string{"not found in params_dict"}},

	{id: "log-nonfinite", words: []string{"loss", "nan"}, not: []string{"finance"}},
	{id: "log-nonfinite", words: []string{"set amax to nan"}},
	{id: "log-nonfinite", words: []string{"non-finite"}},
	{id: "log-nonfinite", words: []string{"contains nan"}},
	{id: "log-nonfinite", words: []string{"not positive definite"}},
	{id: "log-nonfinite", words: []string{"not positive-definite"}},

	{id: "log-fallback", tool: autoRound, words: []string{"keeping original weight"}},
	{id: "log-failed", words: []string{"traceback (most recent call last)"}},
	{id: "log-failed", words: []string{"out of memory"}},
	{id: "log-failed", tool: llamaQuantize, words: []string{"llama", "failed to quantize"}},
	{id: "log-failed", tool: llamaQuantize, words: []string{"missing importance matrix"}},

	{id: "log-fallback", tool: llamaQuantize, words: []string{"required fallback quantization"}},
	{id: "log-fallback", tool: llamaQuantize, words: []string{"not divisible by", "falling back to"}},
	{id: "log-fallback", tool: llamaQuantize, words: []string{"using fallback quantization"}},
	{id: "log-fallback", tool: autoRound, words: []string{"fallback applied"}},
	{id: "log-fallback", tool: vllm, words: []string{"does not have native support for fp4"}},
	{id: "log-fallback", tool: vllm, words: []string{"weight-only", "will be used"}},
	{id: "log-fallback", words: []string{"falling back"}},
	{id: "log-fallback", words: []string{"falls back"}},
	{id: "log-fallback", words: []string{"fall back to"}},
	{id: "log-fallback", words: []string{"fallback"}, not: []string{"fallback=", "allow-fallback", "fallback:", "fallback_", "no fallback", "--fallback", "without fallback"}},

	{id: "log-skipped", tool: autoRound, words: []string{"skipped quantization"}},
	{id: "log-skipped", tool: gptqModel, words: []string{"the layer", "is not quantized"}},
	{id: "log-skipped", words: []string{"skipping quantization"}},
	{id: "log-skipped", words: []string{"skip quantiz"}},
	{id: "log-skipped", words: []string{"not quantized"}, not: []string{"model is not quantized"}},
	{id: "log-skipped", words: []string{"unquantized"}},
	{id: "log-skipped", words: []string{"skip smoothing"}},
	{id: "log-skipped", words: []string{"skipping awq_lite"}},
	{id: "log-skipped", words: []string{"skipping local_hessian"}},
	{id: "log-skipped", words: []string{"layer skipped"}},
	{id: "log-skipped", words: []string{"module", "skipped"}},
	{id: "log-skipped", words: []string{"skipping", "layers."}},

	{id: "log-not-available", words: []string{"is not available"}},
	{id: "log-not-available", words: []string{"are not available"}},
	{id: "log-not-available", words: []string{"not available"}},
	{id: "log-not-available", words: []string{"unavailable"}},
	{id: "log-not-available", words: []string{"not supported", "using"}},

	{id: "log-ignoring", words: []string{"ignoring"}, not: []string{"ignoring the decorator"}},
	{id: "log-ignoring", words: []string{"will be ignored"}},
	{id: "log-ignoring", words: []string{"is ignored"}},
	{id: "log-ignoring", words: []string{"ignore it for now"}},
	{id: "log-ignoring", words: []string{"have no effect"}},
	{id: "log-ignoring", words: []string{"has no effect"}},
}

// mildWords are of lines about devices, kernels, downloads and formats of files:
// they cost time and change no weight.
var mildWords = []string{
	"flash", "triton", "xformers", "sdpa", "eager", "cuda graph", "cudagraph", "cuda is", "cuda not", "torch.compile", "to cpu", "on cpu", "cpu fallback", "causal_conv1d", "causal-conv1d", "mamba",
	"torch.save", "in-process", "fast path", "slow path", "tokenizer", "kernel", "download", "symlink", "hf_transfer", "xet", "nccl", "custom allreduce", "all-reduce", "shared memory", "numa", "gil",
	"dataset", "split", "config.json", "memory usage", "linearization", "python path", "telemetry", "deprecat", "batch size", "peft", "accelerate", "fork",
}

func mild(low string) bool {
	for _, w := range mildWords {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

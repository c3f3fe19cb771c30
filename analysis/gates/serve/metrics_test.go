package serve

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
)

// series are the lines of an exposition, without what varies.
func series(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		name := line[:i]
		if _, twice := out[name]; twice {
			t.Errorf("%s is told twice", name)
		}
		out[name] = strings.TrimSpace(line[i:])
	}
	return out
}

// Counters have vLLM's names and labels, and are those of the engine.
func TestMetrics(t *testing.T) {
	f := newFake()
	url := serving(t, f, Options{Model: `a"b\c`})
	post(t, url+"/v1/completions", `{"prompt":"abc","max_tokens":4}`)
	post(t, url+"/v1/completions", `{"prompt":"abc","max_tokens":100}`)
	post(t, url+"/v1/completions", `{"prompt":"fail"}`)
	got := send(t, "GET", url+"/metrics", "")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != expositionType {
		t.Fatalf("%+v", got)
	}
	is := series(t, got.text)
	l := `engine="0",model_name="a\"b\\c"`
	for name, want := range map[string]string{
		"vllm:prompt_tokens_total{" + l + "}":                                        "10",
		"vllm:generation_tokens_total{" + l + "}":                                    "20",
		"vllm:iteration_tokens_total_count{" + l + "}":                               "8",
		"vllm:spec_decode_num_drafts_total{" + l + "}":                               "7",
		"vllm:spec_decode_num_draft_tokens_total{" + l + "}":                         "14",
		"vllm:spec_decode_num_accepted_tokens_total{" + l + "}":                      "9",
		"vllm:spec_decode_num_accepted_tokens_per_pos_total{" + l + `,position="0"}`: "6",
		"vllm:spec_decode_num_accepted_tokens_per_pos_total{" + l + `,position="1"}`: "3",
		"vllm:prefix_cache_queries_total{" + l + "}":                                 "10",
		"vllm:prefix_cache_hits_total{" + l + "}":                                    "4",
		"vllm:num_requests_running{" + l + "}":                                       "0",
		"vllm:num_requests_waiting{" + l + "}":                                       "0",
		"vllm:request_success_total{" + l + `,finished_reason="length"}`:             "1",
		"vllm:request_success_total{" + l + `,finished_reason="stop"}`:               "1",
		"vllm:request_success_total{" + l + `,finished_reason="error"}`:              "1",
		"vllm:request_success_total{" + l + `,finished_reason="abort"}`:              "0",
		"vllm:time_to_first_token_seconds_count{" + l + "}":                          "2",
		"vllm:time_to_first_token_seconds_bucket{" + l + `,le="+Inf"}`:               "2",
		"vllm:time_to_first_token_seconds_bucket{" + l + `,le="0.001"}`:              "0",
		"vllm:time_to_first_token_seconds_bucket{" + l + `,le="0.005"}`:              "2",
		"vllm:inter_token_latency_seconds_count{" + l + "}":                          "9",
		"vllm:e2e_request_latency_seconds_count{" + l + "}":                          "2",
		"vllm:request_prompt_tokens_sum{" + l + "}":                                  "8",
		"vllm:request_prompt_tokens_bucket{" + l + `,le="2"}`:                        "0",
		"vllm:request_prompt_tokens_bucket{" + l + `,le="5"}`:                        "2",
		"vllm:request_generation_tokens_sum{" + l + "}":                              "11",
		"quantscope:decode_seconds_total{" + l + "}":                                 "1.5",
	} {
		if is[name] != want {
			t.Errorf("%s is %q, want %q", name, is[name], want)
		}
	}
	f.counters.Speculative, f.counters.Prompt = 0, -1
	text := send(t, "GET", url+"/metrics", "").text
	if strings.Contains(text, "spec_decode") || strings.Contains(text, "prompt_tokens_total") {
		t.Errorf("what is not counted is told:\n%s", text)
	}
}

// Buckets are cumulative, and the last one has all.
func TestHistogram(t *testing.T) {
	h := newHistogram([]float64{1, 2.5})
	for _, v := range []float64{0.5, 1, 2, 2.5, 7, 100} {
		h.add(v)
	}
	is := series(t, string(exposition([]family{labels{"m"}.histogram("h", "Help.", h)})))
	for name, want := range map[string]string{`_bucket{engine="0",model_name="m",le="1"}`: "2", `_bucket{engine="0",model_name="m",le="2.5"}`: "4", `_bucket{engine="0",model_name="m",le="+Inf"}`: "6", `_sum{engine="0",model_name="m"}`: "113", `_count{engine="0",model_name="m"}`: "6"} {
		if is["h"+name] != want {
			t.Errorf("h%s is %q, want %s", name, is["h"+name], want)
		}
	}
}

// Tokens that are parts of characters may share a name: the likeliest of one name is
// told, and bytes tell them apart. What no JSON number can be is told as vLLM tells it.
func TestPartsOfCharacters(t *testing.T) {
	tokens := []chat.Token{{ID: 7, Text: "\xed\x95", Known: true, Logprob: math.Inf(-1), Top: []chat.Alt{{ID: 8, Text: "\xea\xb0", Logprob: -1}, {ID: 9, Text: "\xf0\x9f", Logprob: -2}}}}
	text := tokenNames(false).textLogprobs(tokens, 2, 3)
	if text.Tokens[0] != "\uFFFD\uFFFD" || len(text.Top[0]) != 1 || text.Top[0]["\uFFFD\uFFFD"] != -1 || *text.Logprobs[0] != -9999 || text.Offsets[0] != 3 {
		t.Errorf("%+v %v", text, *text.Logprobs[0])
	}
	one := tokenNames(false).chatLogprobs(tokens, 1).Content[0]
	if one.Token != "\uFFFD\uFFFD" || !slices.Equal(one.Bytes, []int{0xed, 0x95}) || one.Logprob != -9999 || len(one.Top) != 1 || !slices.Equal(one.Top[0].Bytes, []int{0xea, 0xb0}) {
		t.Errorf("%+v", one)
	}
	if got := tokenNames(true).textLogprobs(tokens, 2, 0); got.Tokens[0] != "token_id:7" || len(got.Top[0]) != 3 || got.Top[0]["token_id:9"] != -2 {
		t.Errorf("%+v", got)
	}
}

// The fingerprint tells weights, drafts and settings apart, and not threads.
func TestFingerprint(t *testing.T) {
	f := newFake()
	of := func(change func()) string {
		t.Helper()
		change()
		who, err := f.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return Fingerprint(who)
	}
	first := of(func() {})
	if again := of(func() { f.settings["threads"] = "7" }); again != first {
		t.Errorf("threads change %s to %s", first, again)
	}
	if drafts := of(func() { f.spec = 3 }); drafts == first {
		t.Error("drafts do not change it")
	}
	f.spec = 2
	if fault := of(func() { f.settings["fault"] = "fused-scale" }); fault == first {
		t.Error("a fault does not change it")
	}
}

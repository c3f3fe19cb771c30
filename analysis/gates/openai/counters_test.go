package openai

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/openai/openaitest"
)

// counting is a server whose /metrics can be set.
func counting(t *testing.T, first string) (*Client, func(string)) {
	var mu sync.Mutex
	text := first
	s := openaitest.Start(t, openaitest.Script{Engine: "vllm", Metrics: func() string { mu.Lock(); defer mu.Unlock(); return text }})
	return open(t, s.URL, Options{}), func(s string) { mu.Lock(); text = s; mu.Unlock() }
}

// TestCounters reads speculation, several engines, other models beside, and names of
// older versions.
func TestCounters(t *testing.T) {
	none := chat.Counters{Prompt: -1, Generated: -1, Steps: -1, Drafts: -1, Drafted: -1, Accepted: -1, CacheQueries: -1, CacheHits: -1, Seconds: -1, Speculative: -1}
	with := func(f func(*chat.Counters)) chat.Counters { c := none; f(&c); return c }
	for _, c := range []struct {
		name, text string
		want       chat.Counters
	}{
		{"speculation", `# HELP vllm:prompt_tokens_total x
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="test-model"} 10.0
vllm:prompt_tokens_total{engine="1",model_name="test-model"} 5.0
vllm:prompt_tokens_total{engine="0",model_name="other"} 1e3
vllm:generation_tokens_total{engine="0",model_name="test-model"} 1.5e+02
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="test-model"} 3
vllm:iteration_tokens_total_count{engine="0",model_name="test-model"} 40
vllm:iteration_tokens_total_sum{engine="0",model_name="test-model"} 400
vllm:spec_decode_num_drafts_total{engine="0",model_name="test-model"} 50.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="test-model"} 150.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="test-model"} 90.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="test-model",position="0"} 45.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="test-model",position="2"} 15.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="test-model",position="1"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="test-model",position="7"} 1.7e9
vllm:prefix_cache_queries_total{engine="0",model_name="test-model"} 12
vllm:prefix_cache_hits_total{engine="0",model_name="test-model"} 4
`, chat.Counters{Prompt: 15, Generated: 150, Steps: 40, Drafts: 50, Drafted: 150, Accepted: 90, ByPosition: []int64{45, 30, 15}, CacheQueries: 12, CacheHits: 4, Seconds: -1, Speculative: 3}},
		{"older", "vllm:prompt_tokens_total{model_name=\"another name\"} 3\nvllm:gpu_prefix_cache_queries_total 7\nvllm:gpu_prefix_cache_hits_total 2", with(func(c *chat.Counters) {
			c.Prompt, c.CacheQueries, c.CacheHits, c.Speculative = 3, 7, 2, 0
		})},
		{"llama.cpp with drafts", `llamacpp:prompt_tokens_total 10
llamacpp:prompt_tokens_cached_total 5
llamacpp:tokens_predicted_total 1.23457e+06
llamacpp:tokens_predicted_seconds_total 2.5
llamacpp:n_decode_total 20
llamacpp:spec_decode_num_draft_tokens_total 30
llamacpp:spec_decode_num_accepted_tokens_total 12
llamacpp:spec_decode_num_drafts_total 10
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 8
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 4
`, chat.Counters{Prompt: 15, Generated: 1234570, Steps: 30, Drafts: 10, Drafted: 30, Accepted: 12, ByPosition: []int64{8, 4}, CacheQueries: 15, CacheHits: 5, Seconds: 2.5, Speculative: -1}},
		{"sglang", "sglang:prompt_tokens_total{model_name=\"m\"} 8\nsglang:generation_tokens_total{model_name=\"m\"} 9\nsglang:cached_tokens_total{model_name=\"m\"} 3\n", with(func(c *chat.Counters) {
			c.Prompt, c.Generated, c.CacheQueries, c.CacheHits = 8, 9, 8, 3
		})},
		{"not finite", "vllm:prompt_tokens_total NaN\nvllm:generation_tokens_total +Inf\nvllm:spec_decode_num_draft_tokens_total -4\n", with(func(c *chat.Counters) { c.Speculative = 0 })},
		{"labels", `vllm:prompt_tokens_total{a="x\"} 9 {\\",model_name="test-model" , } 3 1700000000000` + "\n", with(func(c *chat.Counters) { c.Prompt, c.Speculative = 3, 0 })},
	} {
		cl, _ := counting(t, c.text)
		got, err := cl.Counters(t.Context())
		c.want.At = got.At
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, d)
		}
	}
	cl, _ := counting(t, "vllm:spec_decode_num_draft_tokens_total 6\nvllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"} 1\n")
	if id, err := cl.Identity(t.Context()); err != nil || id.Speculative != 1 {
		t.Errorf("%+v, %v", id, err)
	}
}

// TestRestart holds that a server which was started again meanwhile is noticed, once.
func TestRestart(t *testing.T) {
	at := func(began, n string) string {
		return "process_start_time_seconds " + began + "\nvllm:generation_tokens_total " + n + "\n"
	}
	for name, steps := range map[string][]string{
		"lower counters": {at("0", "100"), at("0", "120"), "!" + at("0", "20"), at("0", "30")},
		"a later start":  {at("1.7e9", "100"), "!" + at("1.8e9", "300"), at("1.8e9", "310")},
	} {
		c, set := counting(t, "")
		for i, s := range steps {
			text, restarted := strings.CutPrefix(s, "!")
			set(text)
			_, err := c.Counters(t.Context())
			if errors.Is(err, ErrRestarted) != restarted || err != nil && !restarted {
				t.Errorf("%s, %d: %v", name, i, err)
			}
		}
	}
}

func TestNoCounters(t *testing.T) {
	for name, s := range map[string]openaitest.Script{
		"none":   {},
		"others": {Metrics: func() string { return "go_goroutines 4\n" }},
		"a page": {Metrics: func() string { return "<!doctype html><title>x</title>" }},
		"empty":  {Metrics: func() string { return "" }},
	} {
		_, err := open(t, openaitest.Start(t, s).URL, Options{}).Counters(t.Context())
		if !errors.Is(err, chat.ErrNoCounters) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, _ := counting(t, "vllm:prompt_tokens_total{ 3\n")
	var e *chat.Error
	if _, err := c.Counters(t.Context()); !errors.As(err, &e) || e.Kind != chat.Malformed || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v", err)
	}
}

// FuzzSamples holds that no text makes the reader panic, and that what it reads are
// lines of the text.
func FuzzSamples(f *testing.F) {
	f.Add("a{b=\"c\\\"\",d=\"\"} 1 2\nx 3\n# y\n")
	f.Add("a{b=\"")
	f.Fuzz(func(t *testing.T, s string) {
		all, err := readSamples([]byte(s))
		n := 0
		for name, of := range all {
			if n += len(of); !strings.Contains(s, name) {
				t.Fatalf("%q is in no line of %q", name, s)
			}
		}
		if err == nil && n > strings.Count(s, "\n")+1 {
			t.Fatalf("%d of %q", n, s)
		}
		_, _ = readMetrics([]byte(s), "m")
	})
}

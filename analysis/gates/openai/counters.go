package openai

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"quantscope/analysis/gates/chat"
)

// ErrRestarted is wrapped by the error of counters that are lower than they were, or
// of a process that began later: differences over that time say nothing.
var ErrRestarted = errors.New("the server was started again meanwhile")

// maxPositions bounds how long a draft is.
const maxPositions = 1 << 10

// metrics are a server's counters, and when its process began.
type metrics struct {
	counters chat.Counters
	began    float64 // seconds since 1970; 0: not told
}

// Counters implements chat.Target. The first look after the server was started
// again is an error that wraps ErrRestarted; the next one counts anew.
//
// vLLM and quantscope count under vLLM's names, summed over the engines of the
// model: Steps are the engine's, those that only read a prompt included. llama.cpp
// writes its counters with six digits, so that a difference of two large ones is
// coarse; Steps are its decoding steps and those that verify drafts.
func (c *Client) Counters(ctx context.Context) (chat.Counters, error) {
	m, err := c.metrics(ctx)
	if err != nil {
		return chat.Counters{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last, began := c.last, c.began
	c.last, c.began = &m.counters, m.began
	if last != nil && (m.counters.At.After(last.At) && fell(*last, m.counters) || began > 0 && m.began > began) {
		return chat.Counters{}, c.fail(chat.Wrong, 0, "counters", ErrRestarted)
	}
	return m.counters, nil
}

func fell(before, now chat.Counters) bool {
	was := [...]int64{before.Prompt, before.Generated, before.Steps, before.Drafts, before.Drafted, before.Accepted, before.CacheQueries, before.CacheHits}
	is := [...]int64{now.Prompt, now.Generated, now.Steps, now.Drafts, now.Drafted, now.Accepted, now.CacheQueries, now.CacheHits}
	for i := range was {
		if is[i] < was[i] {
			return true
		}
	}
	return false
}

func (c *Client) metrics(ctx context.Context) (*metrics, error) {
	at := time.Now()
	data, header, err := c.fetch(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		if c.quiet(err) == nil {
			err = c.fail(chat.Refused, 0, line(err.Error()), chat.ErrNoCounters)
		}
		return nil, err
	}
	if page(strings.TrimSpace(string(data[:min(len(data), maxRefusal)]))) {
		return nil, c.fail(chat.Refused, 0, "/metrics: a page of HTML", chat.ErrNoCounters)
	}
	m, err := readMetrics(data, c.server.model)
	switch {
	case err != nil:
		return nil, c.fail(chat.Malformed, 0, "/metrics: no text in Prometheus' form", errors.New(line(err.Error())))
	case m == nil:
		return nil, c.fail(chat.Refused, 0, "/metrics: no counters of vLLM, llama.cpp or SGLang", chat.ErrNoCounters)
	}
	if s, err := strconv.ParseFloat(header.Get("Process-Start-Time-Unix"), 64); err == nil {
		m.began = s
	}
	m.counters.At = at
	return m, nil
}

// readMetrics reads what servers tell in Prometheus' text form; nil without an error
// where nothing of it is known.
func readMetrics(data []byte, name string) (*metrics, error) {
	samples, err := readSamples(data)
	if err != nil {
		return nil, err
	}
	f := family{all: samples, name: name}
	m := &metrics{counters: chat.Counters{
		Prompt: -1, Generated: -1, Steps: -1, Drafts: -1, Drafted: -1, Accepted: -1,
		CacheQueries: -1, CacheHits: -1, Seconds: -1, Speculative: -1,
	}}
	k := &m.counters
	switch {
	case f.has("vllm:"):
		f.vllm(k)
	case f.has("llamacpp:"):
		f.llama(k)
	case f.has("sglang:"):
		k.Prompt, k.Generated = f.sum("sglang:prompt_tokens_total"), f.sum("sglang:generation_tokens_total")
		k.CacheQueries, k.CacheHits = k.Prompt, f.sum("sglang:cached_tokens_total")
	default:
		return nil, nil
	}
	if b, ok := f.value("process_start_time_seconds"); ok && b > 0 {
		m.began = b
	}
	return m, nil
}

func (f family) vllm(k *chat.Counters) {
	k.Prompt, k.Generated = f.sum("vllm:prompt_tokens_total"), f.sum("vllm:generation_tokens_total")
	k.Steps = f.sum("vllm:iteration_tokens_total_count")
	k.Drafted = f.sum("vllm:spec_decode_num_draft_tokens_total")
	k.Accepted = f.sum("vllm:spec_decode_num_accepted_tokens_total")
	k.Drafts = f.sum("vllm:spec_decode_num_drafts_total")
	k.ByPosition = f.positions("vllm:spec_decode_num_accepted_tokens_per_pos_total")
	// The prefix cache was counted under the first names before there was a second one.
	k.CacheQueries = f.sum("vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries", "vllm:prefix_cache_queries_total")
	k.CacheHits = f.sum("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits", "vllm:prefix_cache_hits_total")
	if s, ok := f.value("quantscope:decode_seconds_total"); ok {
		k.Seconds = s
	}
	switch {
	case k.ByPosition != nil:
		k.Speculative = len(k.ByPosition)
	case k.Drafted < 0:
		k.Speculative = 0 // it counts drafts where it makes some
	}
}

func (f family) llama(k *chat.Counters) {
	k.Prompt = f.sum("llamacpp:prompt_tokens_total")
	if cached := f.sum("llamacpp:prompt_tokens_cached_total"); cached >= 0 && k.Prompt >= 0 {
		k.Prompt += cached
		k.CacheQueries, k.CacheHits = k.Prompt, cached
	}
	k.Generated = f.sum("llamacpp:tokens_predicted_total")
	k.Drafted = f.sum("llamacpp:spec_decode_num_draft_tokens_total")
	k.Accepted = f.sum("llamacpp:spec_decode_num_accepted_tokens_total")
	k.Drafts = f.sum("llamacpp:spec_decode_num_drafts_total")
	k.ByPosition = f.positions("llamacpp:spec_decode_num_accepted_tokens_per_pos_total")
	if k.Steps = f.sum("llamacpp:n_decode_total"); k.Steps >= 0 && k.Drafts > 0 {
		k.Steps += k.Drafts
	}
	if s, ok := f.value("llamacpp:tokens_predicted_seconds_total"); ok {
		k.Seconds = s
	}
}

// family looks up metrics by name.
type family struct {
	all  map[string][]sample
	name string // of the model
}

func (f family) has(prefix string) bool {
	for name := range f.all {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// series are those of a name: of the model, where some bear its name.
func (f family) series(name string) []sample {
	all := f.all[name]
	var of []sample
	for _, s := range all {
		if s.labels["model_name"] == f.name {
			of = append(of, s)
		}
	}
	if of != nil {
		return of
	}
	return all
}

// value is the sum of a metric's series.
func (f family) value(name string) (float64, bool) {
	sum, some := 0.0, false
	for _, s := range f.series(name) {
		if s.value >= 0 && s.value <= 1<<53 {
			sum, some = sum+s.value, true
		}
	}
	return sum, some
}

// sum is the count under the last of the names that is there, -1 where none is.
func (f family) sum(names ...string) int64 {
	n := int64(-1)
	for _, name := range names {
		if v, ok := f.value(name); ok {
			n = int64(min(v, 1<<53))
		}
	}
	return n
}

// positions are the counts by place in a draft, from 0.
func (f family) positions(name string) []int64 {
	var out []int64
	for _, s := range f.series(name) {
		i, err := strconv.Atoi(s.labels["position"])
		if err != nil || i < 0 || i >= maxPositions || !(s.value >= 0 && s.value <= 1<<53) {
			continue
		}
		for len(out) <= i {
			out = append(out, 0)
		}
		out[i] += int64(s.value)
	}
	return out
}

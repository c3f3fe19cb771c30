package serve

import (
	"net/http"
	"strconv"
)

// metrics is GET /metrics: vLLM's names, in Prometheus' text form.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) *apiError {
	families, fail := s.families(r)
	if fail != nil {
		return fail
	}
	w.Header().Set("Content-Type", expositionType)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(exposition(families)) // whoever does not read it is gone
	return nil
}

// families are all counters, those of the engine that it has, and the server's own.
func (s *Server) families(r *http.Request) ([]family, *apiError) {
	who, err := s.identity(r.Context())
	if err != nil {
		return nil, asError(err)
	}
	c, err := s.engine.Counters(r.Context())
	if err != nil {
		return nil, asError(err)
	}
	running, waiting := s.engine.Busy()
	began := float64(s.began.UnixMilli()) / 1000
	l := labels{name: who.Model}
	out := []family{
		{"process_start_time_seconds", "When the server began to count.", gaugeType, []sample{{value: began}}},
		l.gauge("vllm:num_requests_running", "Answers that are being made.", float64(running)),
		l.gauge("vllm:num_requests_waiting", "Answers that wait for a slot.", float64(waiting)),
	}
	counter := func(name, help string, v float64) {
		if v >= 0 { // else the engine does not count it
			out = append(out, family{name, help, counterType, []sample{l.count(v)}})
		}
	}
	counter("vllm:prompt_tokens_total", "Tokens of prompts.", float64(c.Prompt))
	counter("vllm:generation_tokens_total", "Tokens that were made.", float64(c.Generated))
	counter("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.", float64(c.CacheQueries))
	counter("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", float64(c.CacheHits))
	if c.Speculative > 0 {
		counter("vllm:spec_decode_num_drafts_total", "Times that tokens were drafted.", float64(c.Drafts))
		counter("vllm:spec_decode_num_draft_tokens_total", "Tokens that were drafted.", float64(c.Drafted))
		counter("vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens that were kept.", float64(c.Accepted))
		var places []sample
		for i := range c.Speculative {
			n := int64(0)
			if i < len(c.ByPosition) {
				n = c.ByPosition[i]
			}
			places = append(places, l.count(float64(n), "position", strconv.Itoa(i)))
		}
		out = append(out, family{"vllm:spec_decode_num_accepted_tokens_per_pos_total", "Drafted tokens that were kept, by their place in the draft.", counterType, places})
	}
	if c.Steps >= 0 && c.Generated >= 0 { // how many each brought is not kept, so that one bucket has them all
		n, sum := float64(c.Steps), float64(c.Generated)
		out = append(out, family{"vllm:iteration_tokens_total", "Tokens that passes of the main model made.", histogramType, []sample{
			{"_bucket", l.with("le", "+Inf"), n}, {"_sum", l.with(), sum}, {"_count", l.with(), n},
		}})
	}
	counter("quantscope:decode_seconds_total", "Seconds that making tokens took.", c.Seconds)
	if x, ok := s.engine.(interface{ CacheUsage() float64 }); ok {
		out = append(out, l.gauge("vllm:kv_cache_usage_perc", "Share of the memory for keys and values that is used, 0 to 1.", x.CacheUsage()))
	}
	return append(out, s.meters.families(l)...), nil
}

// families are what the server counts itself.
func (m *meters) families(l labels) []family {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ends []sample
	for _, reason := range endReasons {
		ends = append(ends, l.count(float64(m.ended[reason]), "finished_reason", reason))
	}
	return []family{
		{"vllm:request_success_total", "Answers that ended, by reason.", counterType, ends},
		l.histogram("vllm:time_to_first_token_seconds", "Seconds until the first token came.", m.first),
		l.histogram("vllm:inter_token_latency_seconds", "Seconds between pieces of an answer.", m.between),
		l.histogram("vllm:request_time_per_output_token_seconds", "Seconds a token, of each answer.", m.perTok),
		l.histogram("vllm:e2e_request_latency_seconds", "Seconds of whole answers.", m.all),
		l.histogram("vllm:request_prompt_tokens", "Tokens of prompts, of each answer.", m.prompt),
		l.histogram("vllm:request_generation_tokens", "Tokens that were made, of each answer.", m.made),
	}
}

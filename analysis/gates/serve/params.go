package serve

import (
	"encoding/json"
	"math"

	"quantscope/analysis/gates/chat"
)

// harmless are parameters that change no answer, at any value: who asks, what is kept
// of it elsewhere, how fast it may be.
var harmless = []string{
	"user", "safety_identifier", "metadata", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention", "prediction", "request_id",
}

// neutral are parameters of both kinds of completions that are not done, with the
// values at which they would change nothing.
var neutral = map[string][]string{
	"frequency_penalty": {"0"}, "presence_penalty": {"0"}, "repetition_penalty": {"1"}, "length_penalty": {"1"}, "min_p": {"0"},
	"logit_bias": {"{}"}, "use_beam_search": {"false"}, "stop_token_ids": {"[]"}, "include_stop_str_in_output": {"false"}, "min_tokens": {"0"},
	"spaces_between_special_tokens": {"true"}, "skip_special_tokens": {"true"}, "bad_words": {"[]"}, "priority": {"0"}, "response_format": {`{"type":"text"}`},
	"truncate_prompt_tokens": {"-1"}, "allowed_token_ids": {}, "structured_outputs": {}, "guided_json": {}, "guided_regex": {},
	"guided_choice": {}, "guided_grammar": {}, "grammar": {}, "json_schema": {}, "cache_salt": {}, "logits_processors": {"[]"}, "typical_p": {"1"},
	"mirostat": {"0"}, "repeat_penalty": {"1"}, "vllm_xargs": {"{}"}, "kv_transfer_params": {}, "repetition_detection": {},
}

// neutralChat are those of chat completions, beside the others.
var neutralChat = with(neutral, map[string][]string{
	"functions": {"[]"}, "function_call": {`"none"`}, "modalities": {`["text"]`}, "audio": {}, "web_search_options": {}, "reasoning_effort": {}, "verbosity": {},
	"echo": {"false"}, "add_generation_prompt": {"true"}, "continue_final_message": {"false"}, "add_special_tokens": {"false"}, "documents": {"[]"},
	"chat_template": {}, "mm_processor_kwargs": {}, "media_io_kwargs": {}, "include_reasoning": {"true"}, "thinking_token_budget": {},
})

// neutralText are those of text completions.
var neutralText = with(neutral, map[string][]string{
	"suffix": {`""`}, "prompt_embeds": {},
})

func with(a, b map[string][]string) map[string][]string {
	m := make(map[string][]string, len(a)+len(b))
	for k, v := range a {
		m[k] = v
	}
	for k, v := range b {
		m[k] = v
	}
	return m
}

// common are parameters that both kinds of completions take.
type common struct {
	chat.Request        // sampling, stops, log probabilities of the prompt
	max          int    // tokens to make; -1: not said
	n            int    // answers to each prompt
	usage        bool   // a last chunk tells the usage
	ids          bool   // answers tell token ids
	named        bool   // log probabilities name tokens by their ids
	onlyOwn      bool   // PromptLogprobs is 1 because 0 was asked for: the tokens' own
	model        string // asked for
}

// common takes the parameters of both kinds.
func (b *body) common() common {
	c := common{max: -1, n: 1}
	c.model, _ = take[string](b, "model", "a name")
	c.Temperature = b.number("temperature", 1, 0, 100)
	c.TopP = b.number("top_p", 1, math.SmallestNonzeroFloat64, 1)
	if k, _ := b.whole("top_k", -1, math.MaxInt32); k > 0 { // -1 and 0: all
		c.TopK = k
	}
	if seed, ok := take[int64](b, "seed", "a whole number"); ok {
		u := uint64(seed)
		c.Seed = &u
	}
	c.Stop = b.stops()
	c.IgnoreEOS = b.flag("ignore_eos", false)
	c.Stream = b.flag("stream", false)
	b.streamOptions(&c)
	if n, ok := b.whole("n", 1, maxChoices); ok {
		c.n = n
	}
	if best, ok := b.whole("best_of", 1, maxChoices); ok && best != c.n {
		b.fail(bad("best_of", "best_of is not supported: it may be left out or be n"))
	}
	if n, ok := b.whole("max_tokens", 0, math.MaxInt32); ok {
		c.max = n
	}
	if n, ok := b.whole("prompt_logprobs", 0, maxTop); ok {
		c.PromptLogprobs, c.onlyOwn = max(n, 1), n == 0
		if c.Stream {
			b.fail(bad("prompt_logprobs", "prompt_logprobs are not streamed"))
		}
	}
	c.ids = b.flag("return_token_ids", false)
	c.named = b.flag("return_tokens_as_token_ids", false)
	return c
}

// stops takes the stop strings: one or a list.
func (b *body) stops() []string {
	raw, ok := b.raw("stop")
	if !ok {
		return nil
	}
	var one string
	var list []string
	if json.Unmarshal(raw, &one) == nil {
		list = []string{one}
	} else if json.Unmarshal(raw, &list) != nil {
		b.fail(bad("stop", "stop is %s, not a text or a list of texts", shorten(string(raw))))
		return nil
	}
	if len(list) > maxStops {
		b.fail(bad("stop", "stop has %d texts, and at most %d are taken", len(list), maxStops))
		return nil
	}
	for _, s := range list {
		if s == "" || len(s) > maxStopSize {
			b.fail(bad("stop", "a stop text has %d bytes: want 1 to %d", len(s), maxStopSize))
			return nil
		}
	}
	return list
}

// streamOptions takes what is asked of a stream.
func (b *body) streamOptions(c *common) {
	raw, ok := b.raw("stream_options")
	if !ok {
		return
	}
	inner, err := parseBody(raw)
	switch {
	case err != nil:
		b.fail(bad("stream_options", "stream_options is %s, not an object", shorten(string(raw))))
		return
	case !c.Stream:
		b.fail(bad("stream_options", "stream_options are for streams, and stream is not true"))
		return
	}
	c.usage = inner.flag("include_usage", false)
	_ = inner.flag("include_obfuscation", false) // padding that hides lengths from listeners: it is no part of the answer
	if err := inner.end(map[string][]string{"continuous_usage_stats": {"false"}}); err != nil {
		err.Param = "stream_options." + err.Param
		b.fail(err)
	}
}

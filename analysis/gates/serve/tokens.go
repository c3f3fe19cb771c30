package serve

import (
	"net/http"

	"quantscope/analysis/gates/chat"
)

// tokenize is POST /tokenize, in vLLM's form: a prompt, or a conversation as the chat
// template makes it one.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) *apiError {
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	var q chat.Request
	model, _ := take[string](b, "model", "a name")
	prompt, given := take[string](b, "prompt", "a text")
	if _, ok := b.fields["messages"]; ok {
		q.Messages, q.Tools = b.messages(), b.tools()
		q.TemplateArgs, _ = take[map[string]any](b, "chat_template_kwargs", "an object")
	}
	if given == (q.Messages != nil) {
		b.fail(bad("prompt", "want either prompt or messages"))
	}
	strs := b.flag("return_token_strs", false)
	special := b.flag("add_special_tokens", q.Messages == nil)
	if special && q.Messages != nil {
		b.fail(bad("add_special_tokens", "add_special_tokens is not supported with messages: the chat template puts them there"))
	}
	neutral := map[string][]string{
		"add_generation_prompt": {"true"}, "continue_final_message": {"false"}, "chat_template": {}, "media_io_kwargs": {}, "mm_processor_kwargs": {},
	}
	if err := b.end(neutral); err != nil {
		return err
	}
	if _, err := s.named(r.Context(), model); err != nil {
		return err
	}
	who, fail := s.identity(r.Context())
	if fail != nil {
		return asError(fail)
	}
	var ids []int32
	if q.Messages == nil && !special {
		ids, fail = s.engine.Tokenize(r.Context(), prompt)
	} else {
		q.Prompt = prompt
		ids, fail = s.engine.PromptIDs(q)
	}
	if fail != nil {
		return asError(fail)
	}
	if ids == nil {
		ids = []int32{}
	}
	d := struct {
		Count   int      `json:"count"`
		Max     int      `json:"max_model_len"`
		Tokens  []int32  `json:"tokens"`
		Strings []string `json:"token_strs"`
	}{Count: len(ids), Max: who.MaxTokens, Tokens: ids}
	if strs {
		d.Strings = []string{}
		for _, id := range ids {
			d.Strings = append(d.Strings, s.engine.Detokenize([]int32{id}))
		}
	}
	s.answer(w, http.StatusOK, d)
	return nil
}

// detokenize is POST /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) *apiError {
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	model, _ := take[string](b, "model", "a name")
	ids, ok := take[[]int32](b, "tokens", "a list of ids")
	if !ok {
		b.fail(bad("tokens", "tokens are missing"))
	}
	for _, id := range ids {
		if id < 0 {
			b.fail(bad("tokens", "id %d is none", id))
			break
		}
	}
	if err := b.end(nil); err != nil {
		return err
	}
	if _, err := s.named(r.Context(), model); err != nil {
		return err
	}
	s.answer(w, http.StatusOK, map[string]string{"prompt": s.engine.Detokenize(ids)})
	return nil
}

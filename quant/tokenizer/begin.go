package tokenizer

// Begin is the token that the tokenizer's own rule puts before a text; ok is false
// where it puts none.
func (t *Tokenizer) Begin() (id int32, ok bool) {
	for _, p := range t.post {
		if p.text {
			return 0, false
		}
		if len(p.ids) > 0 {
			return p.ids[0], true
		}
	}
	return 0, false
}

// BeginToken is the begin token, whether it is put before texts or only known to
// be one; ok is false where none is known.
func (t *Tokenizer) BeginToken() (id int32, ok bool) {
	if id, ok := t.Begin(); ok {
		return id, true
	}
	return t.bos, t.bos >= 0
}

// NameBegin makes a token known as the begin token without its being put before
// texts, as tokenizer_config.json does with bos_token. It says whether there is
// such a token. It is not to be called once the tokenizer is shared.
func (t *Tokenizer) NameBegin(token string) bool {
	id, ok := t.ids[token]
	if ok {
		t.bos = id
	}
	return ok
}

package tokenizer

import (
	"encoding/json"
	"fmt"
)

// ParseWithConfig is Parse with what tokenizer_config.json says beside: which token
// is the begin token. config may be nil. The template of tokenizer.json decides
// whether one is put before a text; a config that says otherwise is a note.
func ParseWithConfig(data, config []byte) (*Tokenizer, error) {
	t, err := Parse(data)
	if err != nil || config == nil {
		return t, err
	}
	var c struct {
		BOS json.RawMessage `json:"bos_token"`
		Add *bool           `json:"add_bos_token"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	var token string
	var object struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(c.BOS, &token) != nil && json.Unmarshal(c.BOS, &object) == nil {
		token = object.Content
	}
	if token != "" && !t.NameBegin(token) {
		t.notes = append(t.notes, fmt.Sprintf("tokenizer_config.json names %q as the begin token, and there is no such token", token))
	}
	if _, adds := t.Begin(); c.Add != nil && *c.Add != adds {
		says, does := "says that a begin token is added", "adds none"
		if adds {
			says, does = "says that no begin token is added", "adds one"
		}
		t.notes = append(t.notes, fmt.Sprintf("tokenizer_config.json %s, and the template of tokenizer.json %s, which is what counts here", says, does))
	}
	return t, nil
}

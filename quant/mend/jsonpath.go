package mend

import (
	"bytes"
	"encoding/json"
	"fmt"

	"quantscope/quant/checkpoint"
)

// setPath gives a member of nested objects a value; objects on the way are made
// where there are none. Every other byte of the text stays.
func setPath(text []byte, path []string, value any) ([]byte, error) {
	if len(path) == 1 {
		raw, ok := value.([]byte)
		if !ok {
			var err error
			if raw, err = marshal(value); err != nil {
				return nil, err
			}
		}
		return checkpoint.SetMember(text, path[0], raw)
	}
	inner, err := member(text, path[0])
	if err != nil {
		return nil, err
	}
	if len(inner) == 0 || string(inner) == "null" {
		inner = []byte("{}")
	}
	if inner, err = setPath(inner, path[1:], value); err != nil {
		return nil, fmt.Errorf("%s: %w", path[0], err)
	}
	return checkpoint.SetMember(text, path[0], inner)
}

// member is the text of a member of an object, nil where there is none. A text
// with Python's NaN in that member is refused, since it would be rewritten.
func member(text []byte, key string) ([]byte, error) {
	ck := checkpoint.Checkpoint{Config: text}
	var root map[string]json.RawMessage
	if err := json.Unmarshal(ck.ConfigJSON(), &root); err != nil {
		return nil, err
	}
	raw := root[key]
	if len(raw) > 0 && !bytes.Contains(text, raw) {
		return nil, fmt.Errorf("%s holds NaN or Infinity, which JSON does not know", key)
	}
	return raw, nil
}

// marshal is JSON over several lines, with nothing escaped that need not be.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

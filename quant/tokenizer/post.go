package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// templatePart is the text, or tokens around it.
type templatePart struct {
	text bool
	ids  []int32
}

// setPost takes in what is put around a text, whose ids must be tokens.
func (t *Tokenizer) setPost(raw json.RawMessage) error {
	parts, err := t.parsePost(raw)
	if err != nil {
		return err
	}
	for _, p := range parts {
		for _, id := range p.ids {
			if id < 0 || int(id) >= len(t.vocab) {
				return fmt.Errorf("token id %d is outside the vocabulary of %d", id, len(t.vocab))
			}
		}
	}
	t.post = parts
	return nil
}

// parsePost reads what is put around a single text; nil is nothing.
func (t *Tokenizer) parsePost(raw json.RawMessage) ([]templatePart, error) {
	name, err := kind(raw)
	if err != nil || name == "" {
		return nil, err
	}
	switch name {
	case "ByteLevel": // changes offsets only
		return nil, nil
	case "Sequence":
		var s struct {
			List []json.RawMessage `json:"processors"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		var found []templatePart
		for _, r := range s.List {
			p, err := t.parsePost(r)
			if err != nil {
				return nil, err
			}
			if p == nil {
				continue
			}
			if found != nil {
				return nil, fmt.Errorf("two templates in a sequence: %w", ErrUnknown)
			}
			found = p
		}
		return found, nil
	case "RobertaProcessing", "BertProcessing":
		var s struct {
			Sep []json.RawMessage `json:"sep"`
			Cls []json.RawMessage `json:"cls"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		var ids [2]int32
		for i, pair := range [][]json.RawMessage{s.Cls, s.Sep} {
			if len(pair) != 2 {
				return nil, errors.New("cls and sep are pairs of a token and its id")
			}
			if err := json.Unmarshal(pair[1], &ids[i]); err != nil {
				return nil, err
			}
		}
		return []templatePart{{ids: ids[:1]}, {text: true}, {ids: ids[1:]}}, nil
	case "TemplateProcessing":
		var s struct {
			Single []struct {
				SpecialToken *struct {
					ID string `json:"id"`
				} `json:"SpecialToken"`
				Sequence *struct {
					ID string `json:"id"`
				} `json:"Sequence"`
			} `json:"single"`
			Tokens map[string]struct {
				IDs []int32 `json:"ids"`
			} `json:"special_tokens"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		parts := []templatePart{}
		for _, p := range s.Single {
			switch {
			case p.Sequence != nil && p.Sequence.ID == "A":
				parts = append(parts, templatePart{text: true})
			case p.SpecialToken != nil:
				tok, ok := s.Tokens[p.SpecialToken.ID]
				if !ok {
					return nil, fmt.Errorf("template token %q has no ids", p.SpecialToken.ID)
				}
				parts = append(parts, templatePart{ids: tok.IDs})
			default:
				return nil, fmt.Errorf("a part of a template that is neither a token nor the text: %w", ErrUnknown)
			}
		}
		return parts, nil
	}
	return nil, unknown("post-processor", name, "ByteLevel", "Sequence", "TemplateProcessing", "RobertaProcessing", "BertProcessing")
}

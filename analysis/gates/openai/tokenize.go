package openai

import (
	"context"
	"net/http"

	"quantscope/analysis/gates/chat"
)

// Tokenize implements chat.Tokenizing, by vLLM's question or llama.cpp's.
func (c *Client) Tokenize(ctx context.Context, text string) ([]int32, error) {
	return c.tokenize(ctx, text, false)
}

func (c *Client) tokenize(ctx context.Context, text string, special bool) ([]int32, error) {
	var f fields
	switch c.server.engine {
	case vLLM, quantscope, sgLang:
		f = fields{"model": c.server.model, "prompt": text, "add_special_tokens": special}
	case llamaCpp:
		f = fields{"content": text, "add_special": special, "parse_special": true}
	default:
		return nil, c.unsupported("cutting text into tokens")
	}
	body, err := c.encode(f)
	if err != nil {
		return nil, err
	}
	n, _, err := c.fetchJSON(ctx, http.MethodPost, "/tokenize", body)
	if err != nil {
		return nil, err
	}
	tokens := n.get("tokens")
	ids, err := idList(tokens)
	if err == nil && tokens.kind != list {
		return nil, c.fail(chat.Malformed, 0, "/tokenize: no tokens in the answer", nil)
	}
	if err != nil {
		return nil, c.fail(chat.Malformed, 0, "/tokenize", err)
	}
	return ids, nil
}

// findBOS asks whether a token is put before text.
func (c *Client) findBOS(ctx context.Context) (bool, error) {
	with, err := c.tokenize(ctx, "a", true)
	if err != nil {
		return false, c.quiet(err)
	}
	without, err := c.tokenize(ctx, "a", false)
	return err == nil && len(with) != len(without), c.quiet(err)
}

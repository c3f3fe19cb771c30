package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"quantscope/analysis/gates/chat"
)

// Engines, as chat.Identity names them.
const (
	vLLM       = "vllm"
	llamaCpp   = "llama.cpp"
	quantscope = "quantscope"
	sgLang     = "sglang"
)

// probeTime bounds questions about the server itself.
const probeTime = 15 * time.Second

// served is a server as it tells of itself.
type served struct {
	engine    string
	model     string
	names     []string // that answers of the model may bear
	version   string
	spec      string
	effective string
	content   string
	print     string
	maxTokens int
	drafts    int // tokens a step; -1: not told
	settings  map[string]string
}

// fetch gets a path and reads its whole body. A status that is an error is one.
func (c *Client) fetch(ctx context.Context, method, path string, body []byte) ([]byte, http.Header, error) {
	limit, began := min(c.o.Timeout, probeTime), time.Now()
	for n := 0; ; n++ {
		data, header, after, err := c.fetchOnce(ctx, method, path, body, limit)
		if err == nil {
			return data, header, nil
		}
		d, ok := again(err, n, after)
		if !ok || n >= c.o.Retries || !c.in(began, d) {
			return nil, header, err
		}
		if c.wait(ctx, d) != nil {
			return nil, header, c.ended(ctx)
		}
	}
}

func (c *Client) fetchOnce(ctx context.Context, method, path string, body []byte, limit time.Duration) ([]byte, http.Header, time.Duration, error) {
	a, err := c.send(ctx, method, path, body, limit, limit, limit)
	if err != nil {
		return nil, nil, -1, err
	}
	defer a.done()
	if a.StatusCode != http.StatusOK {
		return nil, a.Header, retryAfter(a.Header, time.Now()), c.refusal(a)
	}
	data, err := io.ReadAll(a.body)
	if err != nil {
		return nil, a.Header, -1, c.readError(err)
	}
	return data, a.Header, -1, nil
}

// ask gets a path's JSON.
func (c *Client) fetchJSON(ctx context.Context, method, path string, body []byte) (node, http.Header, error) {
	data, header, err := c.fetch(ctx, method, path, body)
	if err != nil {
		return node{}, header, err
	}
	n, err := c.decode(data, path)
	return n, header, err
}

// decode reads a body that should be a JSON object.
func (c *Client) decode(data []byte, what string) (node, error) {
	s := strings.TrimSpace(string(data[:min(len(data), maxRefusal)]))
	n, err := parseJSON(data)
	switch {
	case s == "":
		return node{}, c.fail(chat.Malformed, 0, what+": an empty body", nil)
	case err != nil && page(s):
		return node{}, c.fail(chat.Malformed, 0, what+": a page of HTML"+title(s)+", where JSON was expected", nil)
	case err != nil:
		return node{}, c.fail(chat.Malformed, 0, what, err)
	case n.kind != object:
		return node{}, c.fail(chat.Malformed, 0, what+": JSON, but no object", nil)
	}
	return n, nil
}

// find asks a server who it is.
func (c *Client) find(ctx context.Context) (served, error) {
	s := served{maxTokens: -1, drafts: -1, settings: map[string]string{}, model: c.o.Model}
	models, header, err := c.fetchJSON(ctx, http.MethodGet, "/v1/models", nil)
	var e *chat.Error
	if errors.As(err, &e) && e.Code == http.StatusNotFound && s.model != "" {
		err = nil // it does not list its models, and need not: one was named
		s.names = []string{s.model}
	} else if err == nil {
		err = c.choose(&s, models)
	}
	if err != nil {
		return s, err
	}
	if server := strings.ToLower(header.Get("Server")); s.engine == "" {
		for _, name := range []string{llamaCpp, quantscope, sgLang} {
			if strings.HasPrefix(server, name) {
				s.engine = name
			}
		}
	}
	if err := c.version(ctx, &s); err != nil {
		return s, err
	}
	if s.engine == llamaCpp {
		if err := c.props(ctx, &s); err != nil {
			return s, err
		}
	}
	for _, told := range []*string{&s.version, &s.spec, &s.effective, &s.content, &s.print} {
		*told = c.clean(*told)
	}
	for k, v := range s.settings {
		s.settings[k] = c.clean(v)
	}
	return s, ctx.Err()
}

// choose takes the model that is asked for out of those that are listed.
func (c *Client) choose(s *served, models node) error {
	data := models.get("data")
	if data.kind != list {
		return c.fail(chat.Malformed, 0, "/v1/models: no list of models", nil)
	}
	var ids []string
	var found *node
	for i := range data.list {
		m := &data.list[i]
		id := m.get("id").str()
		ids = append(ids, id)
		names := append([]string{id}, strs(m.get("aliases"))...)
		if id != "" && slices.Contains(names, s.model) || len(data.list) == 1 && s.model == "" {
			found = m
		}
	}
	all := line(strings.Join(ids, ", "))
	switch {
	case len(ids) == 0:
		return c.fail(chat.Wrong, 0, "it serves no model", nil)
	case found == nil && s.model == "":
		return c.fail(chat.Refused, 0, "it serves several models and none was named: "+all, nil)
	case found == nil:
		return c.fail(chat.Wrong, 0, fmt.Sprintf("it does not serve %q but %s", line(s.model), all), nil)
	case found.get("id").str() == "":
		return c.fail(chat.Malformed, 0, "/v1/models: a model without a name", nil)
	}
	if s.model == "" {
		s.model = found.get("id").str()
	}
	s.names = append([]string{s.model, found.get("id").str(), found.get("root").str()}, strs(found.get("aliases"))...)
	switch owner := strings.ToLower(found.get("owned_by").str()); owner {
	case vLLM, quantscope, sgLang:
		s.engine = owner
	case "llamacpp", llamaCpp:
		s.engine = llamaCpp
	case "":
	default:
		s.settings["owned_by"] = line(owner)
	}
	for _, f := range []node{found.get("max_model_len"), found.path("meta", "n_ctx")} {
		if n := f.integer(); n > 0 && n <= 1<<31-1 && s.maxTokens < 0 {
			s.maxTokens = int(n)
		}
	}
	s.told(*found, "root", "parent", "quantization", "dtype")
	s.told(found.get("meta"), "n_ctx_train", "n_params", "size", "ftype", "n_vocab")
	return nil
}

// told records scalars that a server told.
func (s *served) told(n node, names ...string) {
	for _, name := range names {
		if f := n.get(name); (f.kind == text || f.kind == number || f.kind == boolean) && f.text != "" {
			s.settings[name] = line(f.text)
		}
	}
}

func strs(n node) []string {
	var out []string
	if n.kind == list {
		for _, f := range n.list {
			if f.str() != "" {
				out = append(out, f.text)
			}
		}
	}
	return out
}

// quiet is nil for an error that only says that a server does not tell something.
func (c *Client) quiet(err error) error {
	var e *chat.Error
	if errors.As(err, &e) && (e.Kind == chat.Malformed || e.Kind == chat.Status && e.Code != http.StatusTooManyRequests && (e.Code < 500 || e.Code == http.StatusNotImplemented)) {
		return nil
	}
	return err
}

// version asks for the version where the engine has one to tell.
func (c *Client) version(ctx context.Context, s *served) error {
	if s.engine == llamaCpp {
		return nil
	}
	n, _, err := c.fetchJSON(ctx, http.MethodGet, "/version", nil)
	if err != nil {
		return c.quiet(err)
	}
	s.version = line(n.get("version").str())
	if e := strings.ToLower(n.get("engine").str()); s.engine == "" && (e == quantscope || e == vLLM) {
		s.engine = e
	}
	if s.engine == quantscope {
		s.ours(n)
	}
	return nil
}

// ours takes what quantscope serve tells of what it serves.
func (s *served) ours(n node) {
	s.spec, s.effective = line(n.get("spec").str()), line(n.get("effective").str())
	s.content, s.print = line(n.get("content").str()), line(n.get("system_fingerprint").str())
	if k := n.get("speculative").integer(); k >= 0 && k <= maxPositions {
		s.drafts = int(k)
	}
	delete(s.settings, "root") // the spec again
	s.told(n, "path")
	settings := n.get("settings")
	s.told(settings, settings.keys...)
}

// props asks llama.cpp how it runs.
func (c *Client) props(ctx context.Context, s *served) error {
	n, _, err := c.fetchJSON(ctx, http.MethodGet, "/props", nil)
	if err != nil {
		return c.quiet(err)
	}
	s.version = line(n.get("build_info").str())
	if v := n.path("default_generation_settings", "n_ctx").integer(); v > 0 && v <= 1<<31-1 {
		s.maxTokens = int(v)
	}
	s.told(n, "total_slots", "model_path", "model_ftype", "bos_token", "eos_token")
	if t := n.get("chat_template").str(); t != "" {
		sum := sha256.Sum256([]byte(t))
		s.settings["chat_template_sha256"] = hex.EncodeToString(sum[:])
	}
	params := n.path("default_generation_settings", "params")
	if t := params.get("speculative.types").str(); t != "" {
		s.settings["speculative.types"] = line(t)
		if t == "none" {
			s.drafts = 0
		}
	}
	return nil
}

// Identity implements chat.Target.
func (c *Client) Identity(ctx context.Context) (chat.Identity, error) {
	s, err := c.find(ctx)
	if err != nil {
		return chat.Identity{}, err
	}
	if m, err := c.metrics(ctx); err == nil && s.drafts < 0 {
		s.drafts = m.counters.Speculative
	}
	return chat.Identity{
		Kind: "server", At: c.base.shown, Model: s.model, Engine: s.engine, Version: s.version,
		Spec: s.spec, Effective: s.effective, Content: s.content, Fingerprint: s.print,
		Speculative: s.drafts, MaxTokens: s.maxTokens, Settings: s.settings,
	}, nil
}

package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"quantscope/analysis/gates/chat"
)

// whoCache keeps who answers: it does not change while an engine lives.
type whoCache struct {
	mu    sync.Mutex
	known bool
	who   chat.Identity
	print string
}

// identity is who answers. Until it is known, each request asks.
func (s *Server) identity(ctx context.Context) (chat.Identity, error) {
	s.who.mu.Lock()
	defer s.who.mu.Unlock()
	if s.who.known {
		return s.who.who, nil
	}
	who, err := s.engine.Identity(ctx)
	if err != nil {
		return who, err
	}
	if s.o.Model != "" {
		who.Model = s.o.Model
	}
	s.who.known, s.who.who, s.who.print = true, who, Fingerprint(who)
	return who, nil
}

// Fingerprint names weights and settings: two engines that could answer differently,
// or count differently, differ in it. Threads and slots are left out: they change nothing.
func Fingerprint(who chat.Identity) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %d %d", who.Engine, who.Version, who.Spec, who.Effective, who.Content, who.Speculative, who.MaxTokens)
	for _, k := range slices.Sorted(maps.Keys(who.Settings)) {
		if k != "threads" && k != "slots" {
			fmt.Fprintf(h, " %q=%q", k, who.Settings[k])
		}
	}
	return "fp_" + hex.EncodeToString(h.Sum(nil)[:8])
}

func (s *Server) fingerprint(ctx context.Context) (string, *apiError) {
	if _, err := s.identity(ctx); err != nil {
		return "", asError(err)
	}
	return s.who.print, nil
}

// named is the model's name, for a request that names it or none.
func (s *Server) named(ctx context.Context, asked string) (string, *apiError) {
	who, err := s.identity(ctx)
	if err != nil {
		return "", asError(err)
	}
	if asked != "" && asked != who.Model {
		return "", &apiError{Status: http.StatusNotFound, Param: "model", Code: "model_not_found", Message: fmt.Sprintf("there is no model %q here, only %q", shorten(asked), who.Model)}
	}
	return who.Model, nil
}

// card is a model as it is listed.
type card struct {
	ID      string  `json:"id"`
	Object  string  `json:"object"`
	Created int64   `json:"created"`
	Owner   string  `json:"owned_by"`
	Root    string  `json:"root"`
	Parent  *string `json:"parent"`
	Max     int     `json:"max_model_len"`
}

func (s *Server) card(ctx context.Context) (card, *apiError) {
	who, err := s.identity(ctx)
	if err != nil {
		return card{}, asError(err)
	}
	return card{ID: who.Model, Object: "model", Created: s.began.Unix(), Owner: "quantscope", Root: who.Spec, Max: who.MaxTokens}, nil
}

// models is GET /v1/models.
func (s *Server) models(w http.ResponseWriter, r *http.Request) *apiError {
	c, err := s.card(r.Context())
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, map[string]any{"object": "list", "data": []card{c}})
	return nil
}

// model is GET /v1/models/{id}.
func (s *Server) model(w http.ResponseWriter, r *http.Request) *apiError {
	id := r.PathValue("id")
	if id == "" {
		return s.models(w, r)
	}
	if _, err := s.named(r.Context(), id); err != nil {
		return err
	}
	c, err := s.card(r.Context())
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, c)
	return nil
}

// health is GET /health: empty, as vLLM's.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) *apiError {
	if s.draining.Load() {
		return &apiError{Status: http.StatusServiceUnavailable, Code: "shutting_down", Message: "the server is ending"}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// versionDocument says what is served, for whoever records it.
type versionDocument struct {
	Version     string            `json:"version"`
	Engine      string            `json:"engine"`
	Model       string            `json:"model"`
	Fingerprint string            `json:"system_fingerprint"`
	Path        string            `json:"path"`
	Spec        string            `json:"spec"`
	Effective   string            `json:"effective"`
	Content     string            `json:"content"`
	Speculative int               `json:"speculative"`
	Max         int               `json:"max_model_len"`
	Settings    map[string]string `json:"settings"`
}

// version is GET /version.
func (s *Server) version(w http.ResponseWriter, r *http.Request) *apiError {
	who, err := s.identity(r.Context())
	if err != nil {
		return asError(err)
	}
	s.answer(w, http.StatusOK, versionDocument{
		Version: s.o.Version, Engine: who.Engine, Model: who.Model, Fingerprint: s.who.print, Path: who.At, Spec: who.Spec, Effective: who.Effective,
		Content: who.Content, Speculative: who.Speculative, Max: who.MaxTokens, Settings: who.Settings,
	})
	return nil
}

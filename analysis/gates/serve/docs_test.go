package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/gates/local"
)

// docs/serve.md names what is served: endpoints, parameters that any value is taken
// of, faults and counters.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(string(text), "`…_", "`vllm:spec_decode_")
	want := []string{"POST /v1/chat/completions`", "POST /v1/completions`", "GET /v1/models`", "POST /tokenize`", "POST /detokenize`", "GET /metrics`", "GET /version`", "GET /health`"}
	for _, name := range harmless {
		want = append(want, "`"+name+"`")
	}
	for _, f := range local.Faults() {
		want = append(want, "| `"+string(f)+"` |")
	}
	for line := range strings.Lines(send(t, "GET", serving(t, newFake(), Options{})+"/metrics", "").text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ = strings.Cut(name, " ")
			want = append(want, "`"+name)
		}
	}
	for _, w := range want {
		if !strings.Contains(doc, w) {
			t.Errorf("docs/serve.md does not name %s", w)
		}
	}
	if len(want) < 30 {
		t.Errorf("only %d names were looked for", len(want))
	}
}

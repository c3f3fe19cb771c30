package topology

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixture is the header of a real checkpoint: config, names, dtypes, shapes.
type fixture struct {
	Config  json.RawMessage   `json:"config"`
	Hub     json.RawMessage   `json:"config.hub"` // the same model with the keys of the released config
	Tensors []json.RawMessage `json:"tensors"`
}

func load(t testing.TB, name string) (fixture, []Named) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	tensors := make([]Named, len(f.Tensors))
	for i, raw := range f.Tensors {
		row := []any{&tensors[i].Name, &tensors[i].DType, &tensors[i].Shape}
		if err := json.Unmarshal(raw, &row); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return f, tensors
}

func resolveFixture(t testing.TB, name string) *Model {
	t.Helper()
	f, tensors := load(t, name)
	m, err := FromConfig(f.Config, tensors)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// fixtures are the names of all, without the extension.
func fixtures(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	return names
}

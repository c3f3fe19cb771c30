// Package topologytest reads, for tests of packages beside package topology, the
// headers that it tests with.
package topologytest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"quantscope/quant/topology"
)

// Header is the config and the tensors of a header of topology's testdata: a golden
// model, or a release cut down.
func Header(t testing.TB, name string) (config []byte, tensors []topology.Named) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "topology", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Config  json.RawMessage
		Tensors [][]json.RawMessage
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	tensors = make([]topology.Named, len(f.Tensors))
	for i, row := range f.Tensors {
		for k, to := range []any{&tensors[i].Name, &tensors[i].DType, &tensors[i].Shape} {
			if err := json.Unmarshal(row[k], to); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f.Config, tensors
}

// Model is what topology makes of a header.
func Model(t testing.TB, name string) *topology.Model {
	t.Helper()
	config, tensors := Header(t, name)
	m, err := topology.FromConfig(config, tensors)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

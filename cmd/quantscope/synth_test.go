package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/landscape"
)

// synth says what it planted, and the workings behind analyze find it by name,
// through files and a session.
func TestSynthPlants(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "planted")
	o := command(t, "synth", dir, "--json", "--layers", "6", "--experts", "16", "--seed", "3", "--plant", "layer=5:1.2,tail=0.01:2")
	var doc struct {
		Dir            string
		ExpertMatrices int `json:"expert_matrices"`
		Plants, Tail   []string
	}
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood {
		t.Fatalf("exit %d, %v: %s", o.code, err, o.err)
	}
	if doc.Dir != dir || doc.ExpertMatrices != 288 || !slices.Equal(doc.Plants, []string{"layer=5:1.2", "tail=0.01:2"}) || len(doc.Tail) != 3 {
		t.Errorf("%+v", doc)
	}
	session := filepath.Join(t.TempDir(), "planted.qscope")
	if o := command(t, "quantize", dir, "--variant", "nvfp4", "--session", session); o.code != exitGood {
		t.Fatalf("exit %d: %s", o.code, o.err)
	}
	st, err := savedState(session)
	if err != nil {
		t.Fatal(err)
	}
	r, err := landscape.Analyze(t.Context(), st.Table(), 0)
	if err != nil {
		t.Fatal(err)
	}
	g := &r.Groups[0]
	found := slices.Sorted(slices.Values(g.Tail.Tensors))
	slices.Sort(doc.Tail)
	if !slices.Equal(found, doc.Tail) || len(g.Verdict.Effects) != 2 || g.Verdict.Effects[1].Name != "L5" {
		t.Errorf("%s: tail %v, planted was %v", g.Verdict.Sentence, found, doc.Tail)
	}

	dir = filepath.Join(t.TempDir(), "plain")
	if o := command(t, "synth", dir, "--layers", "2", "--experts", "2", "--plant", "tail=0.1:1.5"); o.code != exitGood ||
		!strings.Contains(o.out, "planted tail=0.1:1.5\nin the tail: model.layers.") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}

func TestSynthRefusesPlants(t *testing.T) {
	for plant, want := range map[string]string{
		"":                      "--plant is given and empty",
		"layer=5:1.1":           "there is no layer 5 (layers 0 to 4)",
		"expert=16:1.1":         "there is no expert 16 (experts 0 to 15)",
		"head=1:1.1":            "known: layer, expert, projection, tail",
		"layer=1:9":             "planted factors multiply to 9, want 0.08 to 2.785",
		"layer=1:2,tail=1:1.45": "planted factors multiply to 2.9",
	} {
		o := command(t, "synth", filepath.Join(t.TempDir(), "d"), "--plant", plant)
		o.refused(t, exitUsage)
		if !strings.Contains(o.err, want) {
			t.Errorf("%q: %s", plant, o.err)
		}
	}
}

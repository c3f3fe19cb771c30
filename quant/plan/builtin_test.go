package plan

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/quant/topology/topologytest"
)

// On every architecture that names are known of, a built-in recipe has no error, takes
// no router, head that is tied, embedding, tower or MTP layer, and names what it
// takes by patterns that match nothing else.
func TestBuiltinsOfFamilies(t *testing.T) {
	planned := 0
	for _, fixture := range topologyFixtures(t) {
		m := topologytest.Model(t, fixture)
		if m.Config.QuantMethod != "" || fixture == "case_experts_only" || strings.HasPrefix(fixture, "case_dtypes") {
			continue
		}
		for _, name := range recipe.Builtins() {
			f, err := recipe.Builtin(name, m)
			if errors.Is(err, recipe.ErrNothing) {
				if name != "moe-nvfp4" && m.Params[topology.MLP]+m.Params[topology.Expert]+m.Params[topology.Attention] > 0 && !strings.HasPrefix(fixture, "case_") {
					t.Errorf("%s: %v", fixture, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			p := resolved(t, m, f, Options{})
			for _, x := range p.Findings {
				switch {
				case x.ID == OfCheckpoint, x.ID == RowBlocks: // small fixtures
				case fixture == "gpt_oss" && x.ID == FusedBias: // no layout can write them
				case strings.HasPrefix(fixture, "case_") && x.ID == ExpertStored:
				default:
					t.Errorf("%s, %s: %+v", fixture, name, x)
				}
			}
			matches := 0
			for _, g := range p.Groups {
				for _, target := range g.Targets {
					matches += target.Matches
				}
			}
			if matches != p.Targeted || p.Exempted+p.Untargeted > 0 {
				t.Errorf("%s, %s: %d matches, %d targeted, %d in none", fixture, name, matches, p.Targeted, p.Untargeted)
			}
			for i := range p.Selection {
				switch r := &p.Selection[i].Role; {
				case r.MTP, r.Kind == topology.Router, r.Kind == topology.Embedding, r.Kind == topology.Vision, r.Kind == topology.Head && m.Tied:
					t.Errorf("%s, %s: takes %s", fixture, name, p.Selection[i].Name)
				}
			}
			text, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if again := resolved(t, m, parse(t, string(text)), Options{}); again.BytesAfter != p.BytesAfter || again.Targeted != p.Targeted {
				t.Errorf("%s, %s: read back, %d bytes of %d", fixture, name, again.BytesAfter, p.BytesAfter)
			}
			planned++
		}
	}
	if planned < 50 {
		t.Errorf("only %d plans", planned)
	}
}

// The last layers keep 8 bits: 8 of them, or a quarter where there are fewer than 32.
func TestLastLayers(t *testing.T) {
	for _, c := range []struct{ layers, last int }{{48, 8}, {32, 8}, {28, 7}, {5, 2}, {4, 1}, {1, 1}} {
		var s shapes
		for l := range c.layers {
			p := "model.layers." + strconv.Itoa(l) + "."
			s.add(p+"self_attn.q_proj.weight", 32, 32)
			s.mlp(p+"mlp.", 64, 32)
		}
		m := s.model(t, `{"model_type":"llama","hidden_size":32,"tie_word_embeddings":true,"num_hidden_layers":`+strconv.Itoa(c.layers)+`}`)
		p := resolved(t, m, builtinOf(t, "mixed-nvfp4-fp8", m), Options{})
		fp8 := p.Groups[len(p.Groups)-1].Matrices
		if p.Targeted != 4*c.layers || fp8 != c.layers+3*c.last {
			t.Errorf("%d layers: %d of %d in fp8", c.layers, fp8, p.Targeted)
		}
	}
}

func TestBuiltinRefuses(t *testing.T) {
	m := topologytest.Model(t, "llama_untied")
	if _, err := recipe.Builtin("moe-nvfp4", m); !errors.Is(err, recipe.ErrNothing) {
		t.Errorf("a dense model: %v", err)
	}
	if _, err := recipe.Builtin("moe", m); !errors.Is(err, recipe.ErrBuiltin) || !strings.Contains(err.Error(), "moe-nvfp4, mixed-nvfp4-fp8, int4-g128") {
		t.Errorf("%v", err)
	}
}

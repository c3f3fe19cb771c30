package calibrate

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
)

// demoCopy is a checkpoint like the demo but for some of its tensors: change gives
// what a tensor holds, nil for one that is left out.
func demoCopy(t testing.TB, change func(name string, data []byte) []byte) string {
	t.Helper()
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	dir := t.TempDir()
	var specs []checkpoint.Spec
	var all [][]byte
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		data := make([]byte, x.Size)
		if err := ck.ReadAt(context.Background(), x, 0, data); err != nil {
			t.Fatal(err)
		}
		if data = change(x.Name, data); data != nil {
			specs, all = append(specs, checkpoint.Spec{Name: x.Name, DType: x.DType, Shape: x.Shape}), append(all, data)
		}
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range all {
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), ck.ConfigJSON(), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		f, ok := ck.SideFile(name)
		if !ok {
			t.Fatalf("the demo has no %s", name)
		}
		text, err := f.Read()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func without(names ...string) func(string, []byte) []byte {
	return func(name string, data []byte) []byte {
		for _, n := range names {
			if name == n {
				return nil
			}
		}
		return data
	}
}

// plainCodes are what a plain variant makes of a matrix.
func plainCodes(t testing.TB, s *Setup, i int, amax float32) codes.Matrix {
	t.Helper()
	src, err := s.Reference.Source()
	if err != nil {
		t.Fatal(err)
	}
	defer src.Release()
	w, err := src.Weight(t.Context(), placeOf(s.Matrices[i].Role))
	if err != nil {
		t.Fatal(err)
	}
	m, ok := w.Operand.Stored()
	if !ok {
		t.Fatalf("%s is not stored as a matrix", s.Matrices[i].Name)
	}
	if amax == 0 {
		if amax, err = kernels.Reference().AbsMax(m); err != nil {
			t.Fatal(err)
		}
	}
	p, err := kernels.Reference().Begin(s.Variant.Baseline().Spec, m.Element, m.Rows, m.Cols, amax)
	if err != nil {
		t.Fatal(err)
	}
	out := room(p, m.Rows)
	if err := p.Rows(m.Data, &out); err != nil {
		t.Fatal(err)
	}
	global := p.Global()
	if _, err := p.Finish(); err != nil {
		t.Fatal(err)
	}
	return codes.Matrix{Codes: out.Codes, Scales: out.Scales, Mins: out.Mins, Global: global}
}

func sameCodes(a, b *codes.Matrix) bool {
	return string(a.Codes) == string(b.Codes) && string(a.Scales) == string(b.Scales) && string(a.Mins) == string(b.Mins) && a.Global == b.Global
}

// TestLacksTensorOfMTP: what only the MTP layer lacks takes calibration from its
// matrices and from no others; they are what the baseline is, and say why.
func TestLacksTensorOfMTP(t *testing.T) {
	for _, c := range []struct {
		name   string
		lacks  string
		fall   int // matrices
		reason string
	}{
		{"what joins it to the model", "model.layers.5.enorm.weight", 12, "weight of layer 5 mtp_extra enorm is not there"},
		{"its router", "model.layers.5.mlp.gate.weight", 12, "weight of layer 5 router is not there"},
		{"a norm", "model.layers.5.post_attention_layernorm.weight", 12, "weight of layer 5 norm post_attention_layernorm is not there"},
		{"the gate of an expert", "model.layers.5.mlp.experts.1.gate_proj.weight", 1, "weight of layer 5 expert 1 gate is not there"},
		{"the gate of an expert that is no target", "model.layers.5.mlp.experts.9.gate_proj.weight", 0, ""},
	} {
		ref := openReference(t, demoCopy(t, without(c.lacks)))
		s := setup(t, ref, "int4-g128+gptq", `re:model\.layers\.[15]\.mlp\.experts\.[0-3]\.`, 8)
		j, err := Prepare(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		known := j.Fallbacks()
		got := map[int]codes.Matrix{}
		out := calibrated(t, s, Sink{Matrix: func(r Result) error { got[r.Matrix] = r.Codes; return nil }})
		if len(out.Fallbacks) != c.fall || len(known) != c.fall || out.Calibrated != len(s.Matrices)-c.fall || out.FellBack != int64(c.fall)*128*128 {
			t.Errorf("%s: %d fell back, %d were known to, %d calibrated of %d", c.name, len(out.Fallbacks), len(known), out.Calibrated, len(s.Matrices))
		}
		for _, f := range out.Fallbacks {
			m, chosen := &s.Matrices[f.Matrix], got[f.Matrix]
			if !m.Role.MTP || f.Effective != "int4-g128" || !strings.Contains(f.Reason, c.reason) {
				t.Errorf("%s: %s is %s: %s", c.name, m.Name, f.Effective, f.Reason)
			}
			if plain := plainCodes(t, &s, f.Matrix, 0); !sameCodes(&plain, &chosen) || chosen.Why != f.Reason || chosen.Effective != "int4-g128" {
				t.Errorf("%s: %s is not its baseline", c.name, m.Name)
			}
		}
		if err := out.Gate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		text := strings.Join(out.Lines(), "\n")
		if c.fall > 0 && !strings.Contains(text, c.reason) {
			t.Errorf("%s: not told in\n%s", c.name, text)
		}
	}
}

// lacking is a source without some tensors.
type lacking struct {
	model.Source
	place string
}

func (l lacking) Has(p model.Place, param string) bool {
	return p.String() != l.place && l.Source.Has(p, param)
}

// TestLacksTensorOfDecoder: without a tensor of a decoder layer nothing goes through
// the model, whichever layer it is of, and the error says which it is.
func TestLacksTensorOfDecoder(t *testing.T) {
	ref := demoReference(t)
	for _, place := range []string{"layer 0 mlp down", "layer 3 router", "layer 4 norm input_layernorm", "layer 2 expert 11 up", "layer 1 shared_expert gate"} {
		broken := candidate.Of(candidate.Candidate{Label: "broken", Topology: ref.Topology, Arch: ref.Arch, Tokenizer: ref.Tokenizer, TokenizerID: ref.TokenizerID}, func() (model.Source, error) {
			s, err := ref.Source()
			return lacking{s, place}, err
		}, nil)
		_, err := Prepare(t.Context(), setup(t, broken, "int4-g128+gptq", "", 2))
		if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), "broken") {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// TestPlantedNaN: a number that is none, in a norm, in a weight that makes an input,
// or in a quantized one, is named or is counted; it is never in codes.
func TestPlantedNaN(t *testing.T) {
	nan := func(tensor string, at int) func(string, []byte) []byte {
		return func(name string, data []byte) []byte {
			if name == tensor {
				binary.LittleEndian.PutUint16(data[2*at:], 0x7fc0)
			}
			return data
		}
	}
	const targets = `re:model\.layers\.[23]\.mlp\.experts\.`
	for _, c := range []struct {
		tensor  string
		at      int
		mention []string
	}{
		{"model.layers.2.post_attention_layernorm.weight", 7, []string{"layer 2", "chunk 0, position 0", "7"}},
		{"model.layers.0.mlp.down_proj.weight", 384*5 + 1, []string{"layer 0", "chunk 0, position 0", "channel 5"}},
	} {
		ref := openReference(t, demoCopy(t, nan(c.tensor, c.at)))
		j, err := Prepare(t.Context(), setup(t, ref, "int4-g128+gptq", targets, 4))
		if err != nil {
			t.Fatal(err)
		}
		_, err = j.Run(t.Context(), Sink{})
		var input *InputError
		var state *model.NonFiniteError
		if !errors.As(err, &input) && !errors.As(err, &state) {
			t.Errorf("%s: %v", c.tensor, err)
			continue
		}
		for _, word := range c.mention {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: no %q in %v", c.tensor, word, err)
			}
		}
		if input != nil && (input.Tensor == "" || !strings.Contains(err.Error(), input.Tensor)) {
			t.Errorf("%s: the tensor is not named: %v", c.tensor, err)
		}
	}
	// A weight of the last target: what comes out of it is not looked at any more.
	ref := openReference(t, demoCopy(t, nan("model.layers.3.mlp.experts.2.down_proj.weight", 128*9+3)))
	s := setup(t, ref, "int4-g128+gptq", targets, 4)
	seen := false
	calibrated(t, s, Sink{Matrix: func(r Result) error {
		if s.Matrices[r.Matrix].Name == "model.layers.3.mlp.experts.2.down_proj.weight" {
			seen = true
			if r.Tap.NaN != 1 || math.IsNaN(float64(r.Trade.Out2)) || math.IsNaN(float64(r.Trade.Rel2)) {
				t.Errorf("%d NaN; %+v", r.Tap.NaN, r.Trade)
			}
		} else if r.Tap.NaN != 0 {
			t.Errorf("%s has %d NaN", s.Matrices[r.Matrix].Name, r.Tap.NaN)
		}
		return nil
	}})
	if !seen {
		t.Error("the matrix did not come")
	}
}

// TestTooFewTokens: one chunk cannot fill the Hessians of experts. The bound says so
// with its numbers, experts without a token are plain rounding exactly, those
// with few are calibrated and called rank-deficient, and the diagnostic wants
// more text.
func TestTooFewTokens(t *testing.T) {
	s := setup(t, demoReference(t), "int4-g128+gptq", "", 1)
	inactive, deficient := 0, 0
	out := calibrated(t, s, Sink{Matrix: func(r Result) error {
		tr := r.Trade
		switch {
		case tr.Tokens == 0:
			inactive++
			plain := plainCodes(t, &s, r.Matrix, 0)
			if !sameCodes(&plain, &r.Codes) || tr.Changed != 0 || tr.Effective != "int4-g128" || tr.Why != "no token of the calibration text was routed to it" {
				t.Errorf("%s: %+v", r.Codes.Name, tr)
			}
		case tr.Tokens < int64(tr.N):
			deficient++
			if int64(tr.Rank) > tr.Tokens || tr.Rank < 1 || tr.Why != "" || tr.Effective != "int4-g128+gptq" {
				t.Errorf("%s: %+v", r.Codes.Name, tr)
			}
			if least := 1 - float64(tr.Tokens)/float64(tr.N); float64(tr.DampShare) < least-1e-3 { // damping has all of what no token spans
				t.Errorf("%s: damping is %v of the solution, and %d tokens leave %v", r.Codes.Name, tr.DampShare, tr.Tokens, least)
			}
		}
		return nil
	}})
	if inactive == 0 || deficient == 0 || out.Rank.Met() || out.Rank.Need != 1024 || out.Rank.Tokens != 384 {
		t.Errorf("%d inactive, %d deficient, %+v", inactive, deficient, out.Rank)
	}
	if len(out.Fallbacks) != inactive || out.Experts.Inactive != inactive {
		t.Errorf("%d inactive matrices, %d fallbacks, %+v", inactive, len(out.Fallbacks), out.Experts)
	}
	text := strings.Join(out.Lines(), "\n")
	for _, want := range []string{"need 1024: not met: evenly chosen experts are given 48 tokens each, and their down projections have 128 columns", "no token of the calibration text was routed to it", "damping is"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	d := NewDiagnostic(out)
	if d.Advice() != MoreText || !strings.Contains(d.Sentence(), "more text: down projections have") {
		t.Errorf("%s (%+v)", d.Sentence(), d.Downs)
	}
}

// TestOnly: what is not to be calibrated stays at the baseline and is no fallback.
func TestOnly(t *testing.T) {
	s := setup(t, demoReference(t), "nvfp4+gptq", `re:model\.layers\.1\.mlp\.experts\.[0-3]\.`, 8)
	s.Only = []string{"gate", "up"}
	chosen := 0
	out := calibrated(t, s, Sink{Matrix: func(r Result) error {
		down := s.Matrices[r.Matrix].Role.Projection == "down"
		if r.Trade.Chosen != down || r.Trade.Why != "" || (r.Trade.Effective == "nvfp4") != down {
			t.Errorf("%s: %+v", r.Codes.Name, r.Trade)
		}
		if down {
			chosen++
			if plain := plainCodes(t, &s, r.Matrix, 0); !sameCodes(&plain, &r.Codes) {
				t.Errorf("%s is not its baseline", r.Codes.Name)
			}
		}
		return nil
	}})
	if out.Chosen != chosen || chosen != 4 || out.Calibrated != 8 || len(out.Fallbacks) != 0 || out.Gate() != nil {
		t.Errorf("%d chosen, %+v", chosen, out)
	}
	s.Only = []string{"gate", "side"}
	if _, err := Prepare(t.Context(), s); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), `"side"`) || !strings.Contains(err.Error(), "known: down, gate, up") {
		t.Errorf("%v", err)
	}
}

// TestSetupRefuses what nothing can come of, with the reason.
func TestSetupRefuses(t *testing.T) {
	ref := demoReference(t)
	for _, c := range []struct {
		name    string
		is      error
		mention string
		change  func(*Setup)
	}{
		{"no text", ErrNoText, "int4-g128+gptq", func(s *Setup) { s.Corpus = nil }},
		{"empty text", ErrSetup, "no tokens", func(s *Setup) { s.Corpus = &corpus.Corpus{Name: "x"} }},
		{"an id outside", ErrSetup, "token id 1024 at chunk 1, position 2, is outside the vocabulary of 1024", func(s *Setup) {
			s.Corpus = &corpus.Corpus{Name: "x", Chunks: [][]int32{{1, 2}, {3, 4, 1024}}}
		}},
		{"a negative id", ErrSetup, "token id -1 at chunk 0, position 0", func(s *Setup) { s.Corpus = &corpus.Corpus{Name: "x", Chunks: [][]int32{{-1, 2}}} }},
		{"another tokenizer", ErrTokenizer, "made by another tokenizer: abcdef", func(s *Setup) {
			c := *s.Corpus
			c.Tokenizer, c.Behaviour = "abcdef", ""
			s.Corpus = &c
		}},
		{"a plain variant", ErrSetup, "reads no inputs", func(s *Setup) { s.Variant = s.Variant.Baseline() }},
		{"no matrices", ErrSetup, "no matrices", func(s *Setup) { s.Matrices = nil }},
		{"no damping", ErrSetup, "damping of NaN", func(s *Setup) { s.Damp = math.NaN() }},
		{"less than none", ErrSetup, "damping of -1", func(s *Setup) { s.Damp = -1 }},
		{"no reference", ErrSetup, "no forward pass", func(s *Setup) { s.Reference = nil }},
		{"moments of another", ErrSetup, "is of checkpoint 123", func(s *Setup) { s.Saved = &File{Header: Header{Source: "123"}, path: "m.safetensors"} }},
	} {
		s := setup(t, ref, "int4-g128+gptq", "", 2)
		c.change(&s)
		_, err := Prepare(t.Context(), s)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.mention) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	s := setup(t, ref, "int4-g128+gptq", "", 0)
	s.Mem = 64 << 20
	_, err := Prepare(t.Context(), s)
	var short *model.MemoryError
	if !errors.As(err, &short) || short.Have != s.Mem || short.Need <= s.Mem || !strings.Contains(err.Error(), "hidden states of 98304 tokens") {
		t.Errorf("too little memory: %v", err)
	}
	s.Mem = short.Need
	if _, err := Prepare(t.Context(), s); err != nil {
		t.Errorf("with what it needs: %v", err)
	}
}

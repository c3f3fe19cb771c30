package calibrate

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
)

// someExperts are targets of three units that lie apart.
const someExperts = `re:model\.layers\.[135]\.mlp\.experts\.[0-5]\.`

// filesOf are the files of a folder.
func filesOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != "codes.lock" {
			out[e.Name()] = string(b)
		}
	}
	return out
}

func equalFolders(t testing.TB, what, want, got string) {
	t.Helper()
	a, b := filesOf(t, want), filesOf(t, got)
	for name, text := range a {
		if b[name] != text {
			t.Errorf("%s: %s is not what an undisturbed run writes", what, name)
		}
	}
	if len(a) != len(b) {
		t.Errorf("%s: %d files, an undisturbed run writes %d", what, len(b), len(a))
	}
}

// into runs a setup into a folder and closes it.
func into(t testing.TB, s Setup, dir string, sink Sink) *Outcome {
	t.Helper()
	s.Codes = dir
	j, err := Prepare(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	out, err := j.Run(context.Background(), sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Store.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSameBytes: threads, memory and the set of kernels move no bit.
func TestSameBytes(t *testing.T) {
	ref := demoReference(t)
	for _, v := range []string{"int4-g128+gptq+act", "nvfp4+imatrix+gptq"} {
		s := setup(t, ref, v, someExperts, 4)
		want := t.TempDir()
		first := into(t, s, want, Sink{})
		for _, c := range []struct {
			name    string
			threads int
			mem     int64
			set     kernels.Set
		}{{"one thread", 1, 0, kernels.Best()}, {"five threads", 5, 0, kernels.Best()}, {"little memory", 2, 48 << 20, kernels.Best()}, {"the reference", 3, 0, kernels.Reference()}} {
			s.Threads, s.Mem, s.Set = c.threads, c.mem, c.set
			dir := t.TempDir()
			out := into(t, s, dir, Sink{})
			equalFolders(t, v+" with "+c.name, want, dir)
			first.Store, out.Store = nil, nil
			if !reflect.DeepEqual(first, out) {
				t.Errorf("%s with %s: %+v, want %+v", v, c.name, out, first)
			}
		}
	}
}

// TestAgain: what is read back is told as it was the first time, records and counts
// too, and costs no walk.
func TestAgain(t *testing.T) {
	for _, v := range []string{"int4-g128+range+gptq", "code2+gptq"} {
		t.Run(v, func(t *testing.T) { again(t, v) })
	}
}

func again(t *testing.T, v string) {
	ref := demoReference(t)
	s := setup(t, ref, v, someExperts, 4)
	dir := t.TempDir()
	tell := func() (results map[int]Result, counts []Counts, units []string, out *Outcome) {
		results = map[int]Result{}
		out = into(t, s, dir, Sink{
			Matrix: func(r Result) error {
				r.Source.Data = append([]byte(nil), r.Source.Data...)
				if len(r.Codes.Mins) == 0 {
					r.Codes.Mins = nil
				}
				results[r.Matrix] = r
				return nil
			},
			Counts: func(c Counts) { counts = append(counts, c) },
			Unit:   func(u string, _ float64) error { units = append(units, u); return nil },
			Progress: func(p Progress) {
				if len(results) > 0 && p.Units != 3 {
					t.Errorf("%+v", p)
				}
			},
		})
		return results, counts, units, out
	}
	first, counts, units, out := tell()
	again, counts2, units2, out2 := tell()
	for i, r := range again {
		if !r.Again {
			t.Errorf("%s is made again", r.Codes.Name)
		}
		r.Again = false
		if !reflect.DeepEqual(first[i], r) {
			t.Errorf("%s: %+v, was %+v", r.Codes.Name, r.Trade, first[i].Trade)
		}
	}
	out.Store, out2.Store = nil, nil
	if len(again) != len(s.Matrices) || !reflect.DeepEqual(counts, counts2) || !reflect.DeepEqual(units, units2) || !reflect.DeepEqual(out, out2) {
		t.Errorf("%d results, counts %v, units %v, %+v; were %v, %v, %+v", len(again), counts2, units2, out2, counts, units, out)
	}
	// What the checkpoint's tensors say is what the records say.
	for _, r := range again {
		spec := s.Variant.Baseline().Spec
		spec.Codebook = r.Codes.Codebook
		want, err := kernels.Reference().TapOf(spec, kernels.StoredOperand(r.Source), &kernels.Output{Codes: r.Codes.Codes, Scales: r.Codes.Scales, Mins: r.Codes.Mins}, r.Codes.Global, 1)
		if err != nil || want.SumE2 != r.Tap.SumE2 || want.Codes != r.Tap.Codes || want.HasBias != r.Tap.HasBias || want.Bias.SumErr != r.Tap.Bias.SumErr || math.Abs(want.Rel2()-float64(r.Trade.Rel2)) > 1e-12 {
			t.Errorf("%s: error %v, record %v, %v", r.Codes.Name, want.SumE2, r.Tap.SumE2, err)
		}
	}
}

// TestGoesOnAfterAnyUnit: a run that ended between units, or had one taken away, is
// gone on with to the same bytes, by other threads and in other memory.
func TestGoesOnAfterAnyUnit(t *testing.T) {
	for _, v := range []string{"nvfp4+gptq", "code2+gptq"} {
		t.Run(v, func(t *testing.T) { goesOnAfterAnyUnit(t, v) })
	}
}

func goesOnAfterAnyUnit(t *testing.T, v string) {
	ref := demoReference(t)
	s := setup(t, ref, v, someExperts, 4)
	want := t.TempDir()
	into(t, s, want, Sink{})
	for after := 1; after <= 2; after++ {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		s.Codes = dir
		j, err := Prepare(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		done := 0
		_, err = j.Run(ctx, Sink{Unit: func(string, float64) error {
			if done++; done == after {
				cancel()
			}
			return nil
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled after %d units: %v", after, err)
		}
		if n := len(filesOf(t, dir)) - 2; n != after {
			t.Errorf("%d units are kept of %d", n, after)
		}
		s.Threads, s.Mem = 1+after, 48<<20*int64(after)
		made := 0
		into(t, s, dir, Sink{Matrix: func(r Result) error {
			if !r.Again {
				made++
			}
			return nil
		}})
		if made != 18*(3-after) {
			t.Errorf("%d matrices are made after %d units", made, after)
		}
		equalFolders(t, "gone on with", want, dir)
	}
	// A unit in the middle is made again, behind the others as they are.
	dir := t.TempDir()
	into(t, s, dir, Sink{})
	if err := os.Remove(filepath.Join(dir, "unit-001-layer-3.safetensors")); err != nil {
		t.Fatal(err)
	}
	into(t, s, dir, Sink{})
	equalFolders(t, "the middle made again", want, dir)

	// One that is damaged is named, not used and not written over.
	path := filepath.Join(dir, "unit-001-layer-3.safetensors")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	s.Codes = dir
	j, err := Prepare(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Run(t.Context(), Sink{}); err == nil || !strings.Contains(err.Error(), "unit-001-layer-3.safetensors") || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged unit: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(b) {
		t.Errorf("it was written over (%v)", err)
	}
	// Another damping is another folder's.
	s.Damp = 0.1
	if j, err = Prepare(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var differ *codes.DifferError
	if _, err := j.Run(t.Context(), Sink{}); !errors.As(err, &differ) || differ.Field != "damping" {
		t.Errorf("another damping: %v", err)
	}
}

// TestSequential: the inputs of a later layer are those behind the quantized layers
// before it, as a whole pass through them has them.
func TestSequential(t *testing.T) {
	ref := demoReference(t)
	s := setup(t, ref, "int4-g128+gptq", `re:model\.layers\.[13]\.mlp\.experts\.`, 4)
	router := model.InputOf(placeOf(s.Matrices[len(s.Matrices)-1].Role), model.BehindExperts)
	router.Projection, router.Expert = "", -1
	router.Kind = model.InputOf(model.Place{Kind: s.Matrices[0].Role.Kind, Projection: "gate"}, model.BehindExperts).Kind
	var got *Moments
	layer1 := map[model.Place]model.Weight{}
	calibrated(t, s, Sink{
		Moments: func(m *Moments) error {
			if m.At == router && m.At.Layer == 3 {
				c := *m
				c.Sum2 = append([]float64(nil), m.Sum2...)
				got = &c
			}
			return nil
		},
		Matrix: func(r Result) error {
			if m := &s.Matrices[r.Matrix]; m.Role.Layer == 1 {
				w, err := candidate.CodedWeight(kernels.Reference(), s.Variant.Spec, &r.Codes)
				layer1[placeOf(m.Role)] = w
				return err
			}
			return nil
		},
	})
	if got == nil || len(layer1) != 48 {
		t.Fatalf("no moments of %s, or %d matrices of layer 1", router, len(layer1))
	}
	sums := func(at map[model.Place]model.Weight) []float64 {
		src, err := ref.Source()
		if err != nil {
			t.Fatal(err)
		}
		out := make([]float64, ref.Arch.Hidden)
		_, err = model.Run(t.Context(), ref.Arch, []model.Source{&overlay{src, kernels.Best(), at}}, s.Corpus.Chunks, model.Options{
			Set: kernels.Best(), Threads: 2,
			Input: func(_ int, p model.Place, x []float32, n int) {
				if p == router {
					for i, v := range x[:n*len(out)] {
						out[i%len(out)] += float64(v) * float64(v)
					}
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	behind, plain := sums(layer1), sums(nil)
	moved := 0.0
	for c, want := range behind {
		if math.Abs(got.Sum2[c]-want) > 1e-9*want {
			t.Fatalf("column %d: %v, behind quantized layers it is %v", c, got.Sum2[c], want)
		}
		moved += math.Abs(plain[c]-want) / want / float64(len(behind))
	}
	if moved < 1e-4 {
		t.Errorf("quantizing layer 1 moves the moments of layer 3 by %v only", moved)
	}
}

// TestWiredOut: a calibrator that gives back the baseline fails the gate, on the real
// run, whatever else it says.
func TestWiredOut(t *testing.T) {
	hookCalibrated = func(k *making) (codes.Matrix, kernels.Tap, error) { return k.encode(k.base, nil) }
	defer func() { hookCalibrated = nil }()
	for _, v := range []string{"int4-g128+gptq", "nvfp4+imatrix", "code2+imatrix", "code2+sym+gptq"} {
		s := setup(t, demoReference(t), v, `re:model\.layers\.[12]\.mlp\.experts\.[0-3]\.`, 4)
		dir := t.TempDir()
		out := into(t, s, dir, Sink{Matrix: func(r Result) error {
			if r.Trade.Changed != 0 || r.Trade.Effective != v || r.Trade.Out2 != r.Trade.BaseOut2 {
				t.Errorf("%+v", r.Trade)
			}
			return nil
		}})
		err := out.Gate()
		if !errors.Is(err, ErrFidelity) || !strings.Contains(err.Error(), "0 of 393216 codes and parameters of 24 calibrated matrices") {
			t.Errorf("%s: %v", v, err)
		}
		again := into(t, s, dir, Sink{}) // and it does when it is read back
		if err := again.Gate(); !errors.Is(err, ErrFidelity) {
			t.Errorf("%s, read back: %v", v, err)
		}
	}
}

// TestSomeTie: one matrix that is its baseline though text reached it is named.
func TestSomeTie(t *testing.T) {
	const tie = "model.layers.1.mlp.experts.2.up_proj.weight"
	hookCalibrated = func(k *making) (codes.Matrix, kernels.Tap, error) {
		if k.t.name == tie {
			return k.encode(k.base, nil)
		}
		return k.encode(k.v, k.in.importance)
	}
	defer func() { hookCalibrated = nil }()
	out := calibrated(t, setup(t, demoReference(t), "nvfp4+imatrix", `re:model\.layers\.1\.mlp\.experts\.[0-3]\.`, 4), Sink{})
	if out.Gate() != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "1 calibrated matrices are nvfp4, code for code, though text reached them: "+tie) {
		t.Errorf("%v, %q", out.Gate(), out.Warnings)
	}
}

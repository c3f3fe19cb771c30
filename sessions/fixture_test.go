package sessions

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"quantscope/analysis/calibrate"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// sameFigures compares states: NaN equals NaN, and an empty list a missing one.
var sameFigures = cmp.Options{cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(GateRun{}), cmp.Comparer(func(a, b calibrate.Float) bool { return a == b || a != a && b != b })}

// fakeSource makes the weights of tensor t out of t alone.
type fakeSource struct {
	tensors []Tensor
	read    func(t int) error // nil, or what reading tensor t says
	spoil   map[int]func(w []byte)

	mu    sync.Mutex
	reads map[int]int
}

func (s *fakeSource) Need(t int) int { return s.tensors[t].Rows * s.tensors[t].Cols * 2 }

func (s *fakeSource) Read(ctx context.Context, t int, buf []byte) (kernels.Matrix, error) {
	s.mu.Lock()
	s.reads[t]++
	s.mu.Unlock()
	if s.read != nil {
		if err := s.read(t); err != nil {
			return kernels.Matrix{}, err
		}
	}
	rng := rand.New(rand.NewPCG(uint64(t), 7))
	for i := 0; i < len(buf); i += 2 {
		bits := math.Float32bits(float32(rng.NormFloat64()))
		binary.LittleEndian.PutUint16(buf[i:], uint16(bits>>16))
	}
	if f := s.spoil[t]; f != nil {
		f(buf)
	}
	return kernels.Matrix{Element: kernels.BF16, Rows: s.tensors[t].Rows, Cols: s.tensors[t].Cols, Data: buf}, ctx.Err()
}

func (s *fakeSource) Close() error { return nil }

// fakeTap is a deterministic tap record that fills every field from the weights.
func fakeTap(m kernels.Matrix, factor float64) kernels.Tap {
	t := kernels.Tap{Elements: int64(m.Rows * m.Cols), Blocks: int64(m.Rows * m.Cols / 16)}
	for i := range m.Rows * m.Cols {
		w := float64(element(m, i))
		switch {
		case math.IsNaN(w):
			t.NaN++
			continue
		case math.IsInf(w, 0):
			t.Inf++
			continue
		}
		q := float64(float32(math.Round(w*factor*4) / (factor * 4)))
		t.SumW2 += w * w
		t.SumQ2 += q * q
		t.SumWQ += w * q
		t.SumE2 += (w - q) * (w - q)
		t.MaxAbsErr = max(t.MaxAbsErr, math.Abs(w-q))
		t.Amax = max(t.Amax, math.Abs(w))
		t.Codes[i%16]++
		t.Depth[int(math.Abs(w)*7)%20]++
		t.Multipliers[int(math.Abs(q))%16]++
		t.Scales[int(math.Abs(q)*8)%32]++
		t.Errors[i%17]++
	}
	var sums kernels.Moments
	if err := kernels.Reference().Moments(m, &sums); err != nil {
		panic(err)
	}
	t.SetMoments(sums)
	t.GlobalScale, t.ScaleMin, t.ScaleMax, t.ScaleSum, t.ScaleCount = t.Amax/2688, 1, 448, 100*factor, t.Blocks
	t.ScaleHigh, t.Shallow, t.Deep, t.ShallowL2, t.DeepL2 = 1, 3, 2, t.SumW2/8, t.SumW2/16
	return t
}

// fakeJob is a job of n tensors of 8×32 whose variants are called f1, f2 and so on.
func fakeJob(n int) (*Job, *fakeSource) {
	src := &fakeSource{reads: map[int]int{}, spoil: map[int]func([]byte){}}
	for t := range n {
		src.tensors = append(src.tensors, Tensor{
			ID: t, Name: fmt.Sprintf("model.layers.%d.mlp.experts.%d.up_proj.weight", t/16, t%16),
			Source: fmt.Sprintf("model.layers.%d.mlp.experts.%d.up_proj.weight", t/16, t%16),
			File:   fmt.Sprintf("model-%05d.safetensors", t/64), DType: "BF16", Rows: 8, Cols: 32,
			Role: topology.Role{Kind: topology.Expert, Layer: t / 16, Expert: t % 16, Projection: "up", Param: "weight", MTP: t/16 == 3},
		})
	}
	job := &Job{
		Meta: Meta{SourcePath: "fake", SourceIdentity: "0123456789abcdef", Family: "fake", Summary: "a fake", Layers: 3, MTPLayers: 1, Experts: 16, SourceBytes: int64(n) * 512, Targets: "default: routed experts"},
		Name: "fake", Tensors: src.tensors, Source: src,
		Settings: map[string]string{SettingSource: "0123456789abcdef", SettingTargets: "default: routed experts", SettingConvention: "modelopt", SettingGlobalScale: "tensor", SettingNumerics: "1"},
	}
	job.Parse = func(name string) (Quantizer, error) {
		var f int
		if _, err := fmt.Sscanf(name, "f%d", &f); err != nil {
			return Quantizer{}, fmt.Errorf("variant %q is not known (known: f1, f2, …)", name)
		}
		return Quantizer{
			Variant: Variant{Name: name, Effective: name, Scheme: "fake", BitsPerWeight: 4.5, Multipliers: []string{"1.0"}},
			Measure: func(m kernels.Matrix) (Measurement, error) { return Measurement{Tap: fakeTap(m, float64(f))}, nil },
			Rows: func(m kernels.Matrix) (kernels.Tap, []float64, error) {
				return fakeTap(m, float64(f)), make([]float64, m.Rows), nil
			},
		}, nil
	}
	return job, src
}

// sessionPath is a file in a new folder.
func sessionPath(t testing.TB) string { return filepath.Join(t.TempDir(), "s.qscope") }

// runJob runs a job to its end and closes the session.
func runJob(t testing.TB, job *Job, path string, variants ...string) Progress {
	t.Helper()
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: variants, Program: "test", Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	return p
}

// openState is the state of a session file.
func openState(t testing.TB, path string) *State {
	t.Helper()
	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Snapshot()
}

// fixedClock tells a time that only moves when it is set. Its timers never
// fire.
type fixedClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *fixedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fixedClock) After(time.Duration) <-chan time.Time { return nil }

func (c *fixedClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// diffStates fails the test where two states differ.
func diffStates(t *testing.T, want, got *State) {
	t.Helper()
	if diff := cmp.Diff(want, got, sameFigures); diff != "" {
		t.Errorf("states differ (-want +got):\n%.4000s", diff)
	}
}

// dumpTables is the content of the typed tables and views, as text.
func dumpTables(t *testing.T, path string) string {
	t.Helper()
	r, err := openReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := r.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b strings.Builder
	for _, table := range append(slices.Clone(derivedTables), "v_taps", "v_variants", "v_gates", "v_bias", "v_tier", "v_log") {
		err := each(t.Context(), c, "select * from "+table, func(row []driver.Value) error {
			_, err := fmt.Fprintln(&b, table, row)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// sameRecord says whether two records are the same event with the same figures; NaN is
// itself.
func sameRecord(a, b Record) bool {
	return a.Seq == b.Seq && a.AtUS == b.AtUS && a.digest() == b.digest() && a.sameFigures(&b)
}

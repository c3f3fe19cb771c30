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
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// gaussian fills bytes with Gaussian elements.
func gaussian(b []byte, d checkpoint.DType, rng *rand.Rand) {
	if d == checkpoint.F32 {
		for i := 0; i+4 <= len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(rng.NormFloat64()/50)))
		}
		return
	}
	for i := 0; i+2 <= len(b); i += 2 {
		bits := uint16(math.Float32bits(float32(rng.NormFloat64()/50)) >> 16)
		if d == checkpoint.F16 {
			bits = bits&0x83ff | 0x2000 // some magnitude near 2⁻⁷
		}
		binary.LittleEndian.PutUint16(b[i:], bits)
	}
}

// manyShapes writes a checkpoint of plain and fused tensors and is a job over it.
func manyShapes(t *testing.T) *Job {
	t.Helper()
	dir := t.TempDir()
	specs := []checkpoint.Spec{
		{Name: "plain.bf16", DType: checkpoint.BF16, Shape: []int64{300, 96}},
		{Name: "plain.f32", DType: checkpoint.F32, Shape: []int64{70, 160}},
		{Name: "plain.f16", DType: checkpoint.F16, Shape: []int64{33, 48}},
		{Name: "left.out", DType: checkpoint.BF16, Shape: []int64{5}},
		{Name: "one.row", DType: checkpoint.BF16, Shape: []int64{1, 4096}},
		{Name: "odd", DType: checkpoint.BF16, Shape: []int64{130, 37}},
		{Name: "fused.turned", DType: checkpoint.BF16, Shape: []int64{2, 128, 96}}, // expert, input, gate and up
		{Name: "fused.mixed", DType: checkpoint.F32, Shape: []int64{64, 96}},       // gate and up by turns
		{Name: "last", DType: checkpoint.BF16, Shape: []int64{16, 16}},
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var matrices []topology.Matrix
	for _, s := range specs {
		n, _ := s.Size()
		b := make([]byte, n)
		gaussian(b, s.DType, rng)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if len(s.Shape) == 2 && s.Name != "fused.mixed" {
			r, c := int(s.Shape[0]), int(s.Shape[1])
			matrices = append(matrices, topology.Matrix{Name: s.Name, Tensor: s.Name, Rows: r, Cols: c, RowStride: int64(c), ColStride: 1})
		}
	}
	for expert := range 2 {
		for half := range 2 {
			matrices = append(matrices, topology.Matrix{
				Name: fmt.Sprintf("fused.turned[%d].%d", expert, half), Tensor: "fused.turned", Rows: 48, Cols: 128,
				Offset: int64(2 * (expert*128*96 + half*48)), RowStride: 1, ColStride: 96,
			})
		}
	}
	for half := range 2 {
		matrices = append(matrices, topology.Matrix{Name: fmt.Sprint("fused.mixed.", half), Tensor: "fused.mixed", Rows: 48, Cols: 64, Offset: int64(4 * half), RowStride: 2, ColStride: 96})
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	src, err := newStored(ck, matrices)
	if err != nil {
		t.Fatal(err)
	}
	return &Job{
		Meta: Meta{SourcePath: dir}, Name: "many", Tensors: src.tensors(), Source: src, Settings: map[string]string{},
		Parse: func(name string) (Quantizer, error) { return parseVariant(name, Options{}) },
	}
}

// tapPayloads are the payloads of a session's tap events, by variant and tensor.
func tapPayloads(t *testing.T, path string) map[string]string {
	t.Helper()
	st := openState(t, path)
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
	got := map[string]string{}
	err = each(t.Context(), c, selectEvents+" where kind = 'tap'", func(row []driver.Value) error {
		e, err := scanEvent(row)
		if err == nil {
			got[st.Variants[e.Variant].Name+" "+st.Tensors[e.Tensor].Name] = string(e.payload)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

var streamVariants = []string{"nvfp4", "nvfp4+mse", "nvfp4+4over6", "mxfp4", "fp8", "fp8-channel", "fp8-block128", "int4-g32", "int4-g128-sym+range"}

// TestMemoryDoesNotChangeARecord: the same bytes are recorded whether a tensor is
// in memory as a whole, together with others, or a few rows at a time.
func TestMemoryDoesNotChangeARecord(t *testing.T) {
	var want map[string]string
	for _, mem := range []int64{1 << 30, 64 << 10, 9000, 1} {
		for _, threads := range []int{1, 3} {
			job, path := manyShapes(t), sessionPath(t)
			l, err := StartJob(t.Context(), job, Options{Session: path, Variants: streamVariants, Threads: threads, MemBytes: mem})
			if err != nil {
				t.Fatal(err)
			}
			p, err := l.Wait(t.Context())
			if err != nil || p.Failed > 0 || p.State != RunFinished {
				t.Fatalf("%+v, %v", p, err)
			}
			rows, err := l.RowErrors(t.Context(), 1, 1)
			if err != nil || len(rows) != job.Tensors[1].Rows || !(rows[3] > 0) {
				t.Errorf("%d rows, %v", len(rows), err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			got := tapPayloads(t, path)
			if want == nil {
				want = got
			}
			if len(got) != len(streamVariants)*len(job.Tensors) {
				t.Errorf("%d records", len(got))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d bytes of memory, %d threads: records differ:\n%.2000s", mem, threads, diff)
			}
		}
	}
	job := manyShapes(t)
	defer job.Source.Close()
	for i, ts := range job.Tensors { // and they are what one call of the kernels gives
		m, err := job.Source.Read(t.Context(), i, make([]byte, job.Source.Need(i)))
		if err != nil {
			t.Fatal(err)
		}
		v, err := method.Parse("nvfp4+mse")
		if err != nil {
			t.Fatal(err)
		}
		tap, err := v.Measure(kernels.Best(), m)
		if err != nil {
			t.Fatal(err)
		}
		var sums kernels.Moments
		if err := kernels.Reference().Moments(m, &sums); err != nil {
			t.Fatal(err)
		}
		tap.SetMoments(sums)
		if p := string(encodeTap(nil, &tap, digestOf(m.Data, false).xxh)); p != want["nvfp4+mse "+ts.Name] {
			t.Errorf("%s: the record is another one than of the matrix as a whole", ts.Name)
		}
	}
}

// counted counts what is read of a source, and can spoil it.
type counted struct {
	*storedSource
	runs, rows atomic.Int64
	refuseRuns bool
	spoil      func(t, from int, dst []byte)
	before     func() // each read; may be nil
}

func (c *counted) read(n *atomic.Int64) {
	n.Add(1)
	if c.before != nil {
		c.before()
	}
}

func (c *counted) ReadRun(ctx context.Context, t int, off int64, dst []byte) error {
	c.read(&c.runs)
	if c.refuseRuns {
		return errors.New("a bad block")
	}
	return c.storedSource.ReadRun(ctx, t, off, dst)
}

func (c *counted) ReadRows(ctx context.Context, t, from int, dst []byte) error {
	c.read(&c.rows)
	err := c.storedSource.ReadRows(ctx, t, from, dst)
	if c.spoil != nil {
		c.spoil(t, from, dst)
	}
	return err
}

// TestSmallTensorsAreReadTogether: adjacent tensors take one read, and where that
// fails each takes its own.
func TestSmallTensorsAreReadTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	seedCheckpoint(t, dir, 1)
	for _, refuse := range []bool{false, true} {
		job, err := openJob(Options{Checkpoint: dir})
		if err != nil {
			t.Fatal(err)
		}
		src := &counted{storedSource: job.Source.(*storedSource), refuseRuns: refuse}
		job.Source = src
		if p := runJob(t, job, sessionPath(t), "nvfp4"); p.Done != 4 {
			t.Errorf("%+v", p)
		}
		runs, rows := src.runs.Load(), src.rows.Load()
		if !refuse && (runs != 1 || rows != 0) || refuse && rows != 4 {
			t.Errorf("refused %v: %d runs and %d other reads", refuse, runs, rows)
		}
	}
}

// TestTroubleInPieces: what is wrong with a tensor that is never whole in memory
// is told as of any other.
func TestTroubleInPieces(t *testing.T) {
	job, path := manyShapes(t), sessionPath(t)
	src := &counted{storedSource: job.Source.(*storedSource)}
	reads := 0
	src.spoil = func(t, from int, dst []byte) {
		switch {
		case t == 0 && from <= 200 && from+len(dst)/192 > 200:
			copy(dst[(200-from)*192+2*7:], []byte{0xc0, 0x7f}) // NaN at [200,7]
		case t == 1 && from == 0:
			if reads++; reads == 2 { // other weights in the second reading
				dst[0] ^= 1
			}
		}
	}
	job.Source = src
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"nvfp4"}, Threads: 1, MemBytes: 9000})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	oneLineOf(t, err, "plain.f32", "its weights changed since they were measured")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	if r := st.Records[0][0]; !r.Failed || r.NonFinite != 1 || st.Records[0][1].Seq != 0 {
		t.Errorf("%+v", r)
	}
	for _, e := range st.Log {
		if want := `model.safetensors: tensor "plain.bf16": weights are not finite: NaN at [200,7]`; e.Kind == EventFailed && e.Message != want {
			t.Errorf("%q, want %q", e.Message, want)
		}
	}
}

package tui

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"quantscope/kernels"
	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/tui/ptytest"
)

// ones is a source whose tensors hold ones.
type ones struct{ rows, cols int }

func (s ones) Need(int) int { return 4 * s.rows * s.cols }
func (s ones) Close() error { return nil }

func (s ones) Read(_ context.Context, _ int, buf []byte) (kernels.Matrix, error) {
	for i := range buf {
		buf[i] = []byte{0, 0, 0x80, 0x3f}[i%4] // 1.0 as a little-endian float32
	}
	return kernels.Matrix{Element: kernels.F32, Rows: s.rows, Cols: s.cols, Data: buf}, nil
}

// A panic in a worker of a run, while the workbench is on a real terminal, costs
// the one tensor: the run goes on, the log names it, no stack reaches the
// terminal, which is as it was after q.
func TestWorkerPanicOnTerminal(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const tensors, bad = 12, 5
	src := ones{8, 32}
	job := &sessions.Job{
		Meta:   sessions.Meta{SourcePath: "made up", SourceIdentity: "0123456789abcdef", Family: "made up", Summary: "twelve tensors", Layers: 1, Experts: tensors},
		Name:   "made-up",
		Source: src,
		Settings: map[string]string{
			sessions.SettingSource: "0123456789abcdef", sessions.SettingTargets: "all", sessions.SettingConvention: "modelopt", sessions.SettingNumerics: "1",
		},
	}
	for i := range tensors {
		name := "layers.0.experts." + string(rune('a'+i)) + ".up_proj"
		job.Tensors = append(job.Tensors, sessions.Tensor{
			ID: i, Name: name, Source: name, File: "made-up.safetensors", DType: "F32", Rows: src.rows, Cols: src.cols,
			Role: topology.Role{Kind: topology.Expert, Expert: i, Projection: "up", Param: "weight"},
		})
	}
	shown := make(chan struct{}) // closed when the workbench is on the terminal
	var calls atomic.Int64
	job.Parse = func(name string) (sessions.Quantizer, error) {
		return sessions.Quantizer{
			Variant: sessions.Variant{Name: name, Effective: name, Scheme: "made up", BitsPerWeight: 4.5, Multipliers: []string{"1"}},
			Measure: func(m kernels.Matrix) (sessions.Measurement, error) {
				<-shown
				if calls.Add(1) == bad+1 { // one worker: the tensors come in order
					panic("index out of range [7] with length 7")
				}
				return sessions.Measurement{Tap: kernels.Tap{Elements: 256, Blocks: 16, SumW2: 256, SumQ2: 256, SumWQ: 256, SumE2: 0.5, Amax: 1}}, nil
			},
		}, nil
	}
	live, err := sessions.StartJob(context.Background(), job, sessions.Options{
		Session: filepath.Join(t.TempDir(), "made-up.qscope"), Variants: []string{"v1"}, Threads: 1, Program: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	p := ptytest.Open(t, 120, 40)
	ended := runOn(context.Background(), p, live, Options{})
	p.Until(0, "0/12")
	close(shown)
	mark := p.Until(0, "1 failed")
	p.Press("8")
	p.Until(mark, job.Tensors[bad].Name)
	p.Until(0, "11/12")
	p.Until(0, "✓ finished")
	p.Press("q")
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	p.Restored()
	if err := live.Close(); err != nil {
		t.Error(err)
	}
	feed, err := sessions.OpenSession(live.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	st := feed.Snapshot()
	if st.Progress.State != sessions.RunFinished || st.Progress.Done != tensors-1 || st.Progress.Failed != 1 {
		t.Errorf("the file says %+v", st.Progress)
	}
	for i, r := range st.Records[0] {
		if r.Seq == 0 || r.Failed != (i == bad) {
			t.Errorf("tensor %d: %+v", i, r)
		}
	}
	named := 0
	for _, e := range st.Log {
		if e.Kind == sessions.EventFailed && e.Tensor == bad && strings.Contains(e.Message, "index out of range") {
			named++
		}
	}
	if named != 1 {
		t.Errorf("%d events name the tensor and the reason: %+v", named, st.Log)
	}
}

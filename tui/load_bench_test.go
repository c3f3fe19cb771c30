package tui

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"

	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/sessions"
)

// BenchmarkLoad is the whole way of a large run, on real files: a synthetic
// checkpoint of 43 layers × 288 experts × 3 projections (37,152 matrices of
// 64×64) is quantized under three variants while the workbench is on screen at
// 200×60, on the map and on each other screen in turn; then the session is
// opened anew. It reports the Update and View of each frame while the workers hold
// all cores (live-p50, live-p99) and of the same records from the session alone
// (p50, p99), the time to open, the first frame, and the largest memory of the run.
func BenchmarkLoad(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "big")
	if err := (demo.Synth{Layers: 43, Experts: 288, Hidden: 64, Intermediate: 64, Seed: 1}).Write(b.Context(), dir, nil); err != nil {
		b.Fatal(err)
	}
	o := fixed()
	profile := termenv.TrueColor
	o.Profile = &profile
	var live, frames []time.Duration
	var opened, first, ran time.Duration
	var peak float64
	var known bool
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "big.qscope")
		live, ran = loadFrames(b, dir, path, o, live)
		peak, known = peakMemory() // of the run; what follows holds everything twice
		begun := time.Now()
		feed, err := sessions.OpenSession(path)
		if err != nil {
			b.Fatal(err)
		}
		m := New(feed, o)
		opened = time.Since(begun)
		m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
		frameBytes = len(m.View())
		first = time.Since(begun)
		whole := m.scene.State
		m.end()
		for _, screen := range []string{"1", "2", "4", "8"} {
			frames = append(frames, sessionFrames(whole, o, screen)...)
		}
		if err := feed.Close(); err != nil {
			b.Fatal(err)
		}
	}
	report(b, frames)
	slices.Sort(live)
	b.ReportMetric(float64(live[len(live)/2].Microseconds())/1000, "live-p50-ms")
	b.ReportMetric(float64(live[len(live)*99/100].Microseconds())/1000, "live-p99-ms")
	b.ReportMetric(float64(len(frames)), "frames")
	b.ReportMetric(float64(ran.Milliseconds()), "run-ms")
	b.ReportMetric(float64(opened.Milliseconds()), "open-ms")
	b.ReportMetric(float64(first.Milliseconds()), "first-frame-ms")
	if known {
		b.ReportMetric(peak, "peak-MiB")
	}
}

// loadFrames runs the engine with the workbench on top and times each frame.
func loadFrames(b *testing.B, dir, path string, o Options, frames []time.Duration) ([]time.Duration, time.Duration) {
	begun := time.Now()
	live, err := sessions.Start(b.Context(), sessions.Options{
		Checkpoint: dir, Session: path, Variants: []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1"}, Program: "benchmark", KernelSet: kernels.Best(),
	})
	if err != nil {
		b.Fatal(err)
	}
	m := New(live, o)
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
	screens := []string{"1", "2", "4", "8"}
	for n := 0; m.scene.State.Progress.State != sessions.RunFinished; n++ {
		batch, err := live.Next(context.Background(), 33*time.Millisecond)
		if err != nil {
			b.Fatal(err)
		}
		if n%30 == 29 { // about a second each
			m.Update(keyOf(screens[n/30%len(screens)]))
		}
		start := time.Now()
		m.Update(batchMsg{src: m.src, batch: batch})
		frameBytes = len(m.View())
		frames = append(frames, time.Since(start))
	}
	m.end()
	if p := m.scene.State.Progress; p.Done != 3*43*288*3 || p.Failed != 0 {
		b.Fatalf("%+v", p)
	}
	if err := live.Close(); err != nil {
		b.Fatal(err)
	}
	return slices.Clip(frames), time.Since(begun)
}

// sessionFrames shows the records of a session a thousand at a time on one screen
// and times each frame.
func sessionFrames(whole *sessions.State, o Options, screen string) []time.Duration {
	empty := sessions.State{Meta: whole.Meta, Tensors: whole.Tensors, Variants: slices.Clone(whole.Variants), Progress: sessions.Progress{State: sessions.RunRunning}}
	var records []sessions.Record
	for v := range whole.Variants {
		empty.Records = append(empty.Records, make([]sessions.Record, len(whole.Tensors)))
		records = append(records, whole.Records[v]...)
	}
	slices.SortFunc(records, func(a, b sessions.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	m := New(newFakeFeed(sessions.Live, whole, &empty), o)
	defer m.end()
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
	m.Update(keyOf(screen))
	m.View()
	var took []time.Duration
	for next := range slices.Chunk(records, 1000) {
		batch := sessions.Batch{Records: next, Progress: sessions.Progress{State: sessions.RunRunning, Variant: 2, Total: int64(len(records))}, LastSeq: next[len(next)-1].Seq}
		begun := time.Now()
		m.Update(batchMsg{src: m.src, batch: batch})
		frameBytes = len(m.View())
		took = append(took, time.Since(begun))
	}
	return took
}

// peakMemory is the largest resident set of this process in MiB, where the
// system tells.
func peakMemory() (float64, bool) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024, err == nil
		}
	}
	return 0, false
}

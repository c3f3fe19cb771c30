package sessions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/calibrate"
	"quantscope/quant/codes"
	"quantscope/quant/export"
)

// calibOptions is a calibrated run over three layers of the demo, one of them for
// multi-token prediction, on a little text.
func calibOptions(session string) Options {
	return Options{
		Checkpoint: "demo", Session: session, Variants: []string{"int4-g128+gptq"}, Targets: "*layers.[145].*experts.[0-3].*", Threads: 2, Program: "test",
		Calibration: CalibrationOptions{Chunks: 3},
	}
}

func init() { childVerbs["calibrate"] = childCalibrate }

// childCalibrate calibrates, and stands still where it is told: "N S PATH" is at the
// N-th thing of kind S that the run tells of, which is a step by its name, or unit.
func childCalibrate(what string) error {
	var n int
	var kind, path string
	if _, err := fmt.Sscanf(what, "%d %s %s", &n, &kind, &path); err != nil {
		return err
	}
	job, err := openJob(calibOptions(path))
	if err != nil {
		return err
	}
	job.calibrator = &holding{calibrator: job.calibrator, n: n, kind: kind}
	l, err := StartJob(context.Background(), job, calibOptions(path))
	if err != nil {
		return err
	}
	_, err = l.Wait(context.Background())
	return errors.Join(err, l.Close())
}

// holding is a calibrator whose runs stand still until they are killed.
type holding struct {
	calibrator
	n    int
	kind string
}

func (h *holding) prepare(ctx context.Context, w calibWant) (preparedCalib, error) {
	p, err := h.calibrator.prepare(ctx, w)
	return &heldCalib{p, h}, err
}

type heldCalib struct {
	preparedCalib
	h *holding
}

func (r *heldCalib) run(ctx context.Context, sink calibrate.Sink) (*calibrate.Outcome, error) {
	seen := 0
	stand := func(kind string) {
		if seen++; r.h.kind == kind && seen == r.h.n {
			fmt.Println("done 1")
			_, _ = os.Stdin.Read(make([]byte, 1)) // the parent kills
		} else if r.h.kind != kind {
			seen--
		}
	}
	progress, unit := sink.Progress, sink.Unit
	sink.Progress = func(p calibrate.Progress) {
		progress(p)
		stand(p.Step)
	}
	sink.Unit = func(name string, seconds float64) error {
		stand("unit") // its codes are kept, and the session does not know
		return unit(name, seconds)
	}
	return r.preparedCalib.run(ctx, sink)
}

// TestCalibrationKilledAndResumed kills a calibrating process in the middle of a
// layer, and between keeping a layer's codes and recording it; what goes on from the
// codes ends with the very bytes of a run that was not disturbed, calibrates only
// what was lacking, and so does an export in another session from the codes alone.
func TestCalibrationKilledAndResumed(t *testing.T) {
	whole := sessionPath(t)
	o := calibOptions(whole)
	o.Export = &ExportOptions{Dir: filepath.Join(t.TempDir(), "out"), Layout: export.Own}
	o.GlobalScale = "tensor"
	if _, err := runExport(t, t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	want, wantBytes := payloads(t, whole), folderBytes(t, o.Export.Dir)
	if len(want) != 36 {
		t.Fatalf("%d records", len(want))
	}

	path := sessionPath(t)
	for i, at := range []string{"2 looking", "1 quantizing", "1 unit", "1 quantizing", "2 unit"} {
		p := startChild(t, "calibrate "+at+" "+path)
		if !p.until(1) {
			t.Fatalf("kill %d: the child ended", i)
		}
		if err := p.kill(); err == nil {
			t.Fatalf("kill %d: not killed", i)
		}
		for k, b := range payloads(t, path) {
			if !bytes.Equal(b, want[k]) {
				t.Fatalf("kill %d: another record of %v", i, k)
			}
		}
		st := openState(t, path)
		// The first kill can come before the file says that the run has begun.
		if s := st.Progress.State; s != RunInterrupted && (i > 0 || s != RunIdle) {
			t.Errorf("kill %d: %+v", i, st.Progress)
		}
	}
	dir := codesOf(path, "int4-g128+gptq")
	is, err := ReadCodes(dir)
	if err != nil || is.Whole || len(is.Missing) == 0 || is.Targets != o.Targets || is.Variant != "int4-g128+gptq" {
		t.Fatalf("%+v, %v", is, err)
	}

	// From the codes alone, in another session: what is lacking is calibrated first.
	fresh := Options{
		Checkpoint: "demo", Session: sessionPath(t), Variants: []string{is.Variant}, Targets: is.Targets, Threads: 1, Program: "test",
		Calibration: CalibrationOptions{Codes: dir, FromCodes: true},
		Export:      &ExportOptions{Dir: filepath.Join(t.TempDir(), "out"), Layout: export.Own},
	}
	if err := fresh.TakeCodes(is); err != nil || fresh.GlobalScale != "tensor" {
		t.Fatal(fresh.GlobalScale, err)
	}
	if x, err := runExport(t, t.Context(), fresh, nil); err != nil || x.State != ExportWhole {
		t.Fatalf("%+v, %v", x, err)
	}
	if got := folderBytes(t, fresh.Export.Dir); !maps.EqualFunc(got, wantBytes, bytes.Equal) {
		t.Error("the export from codes has other bytes than an undisturbed run's")
	}
	if got := payloads(t, fresh.Session); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Error("the records from codes are others than an undisturbed run's")
	}
	st := openState(t, fresh.Session)
	var again []bool
	for _, u := range st.Calibrations[0].Units {
		again = append(again, u.Again)
	}
	if n := len(again); n != 3 || !again[0] || again[n-1] {
		t.Errorf("read back: %v", again)
	}
	sameCodes(t, codesOf(whole, "int4-g128+gptq"), dir)

	// The killed session goes on too: all that is left is to read back.
	runOptions(t, calibOptions(path))
	if got := payloads(t, path); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Error("the session that was killed has other records")
	}
	if st := openState(t, path); len(st.Calibrations) != 1 || len(st.Calibrations[0].Units) != 3 || st.Calibrations[0].End == nil || st.Progress.State != RunFinished {
		t.Errorf("%d calibrations, %+v", len(st.Calibrations), st.Progress)
	}
}

// runOptions runs to the end.
func runOptions(t *testing.T, o Options) {
	t.Helper()
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
}

// sameCodes wants two folders to hold the same codes.
func sameCodes(t *testing.T, a, b string) {
	t.Helper()
	var stores []*codes.Store
	for _, dir := range []string{a, b} {
		s, err := codes.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores = append(stores, s)
	}
	for _, name := range stores[0].Manifest().Matrices {
		x, err1 := stores[0].Matrix(name)
		y, err2 := stores[1].Matrix(name)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x.Codes, y.Codes) || !bytes.Equal(x.Scales, y.Scales) || !bytes.Equal(x.Mins, y.Mins) || x.Effective != y.Effective {
			t.Errorf("%s: other codes", name)
		}
	}
}

// What a session, a folder of codes and a request contradict one another about is
// refused before anything is computed, and rows are told from codes.
func TestCalibrationOfTheDemo(t *testing.T) {
	o := calibOptions(sessionPath(t))
	o.Targets = "*layers.1.*experts.[01].*"
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := l.RowErrors(t.Context(), 0, 2)
	if err != nil || len(rows) != 128 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	saved := openFeed(t, o.Session)
	st := saved.Snapshot()
	told, err := saved.RowErrors(t.Context(), 0, 2)
	if err != nil || !slices.Equal(rows, told) {
		t.Errorf("rows of the saved session: %v", err)
	}
	if mean := meanOf(rows); mean < 0.5*st.Records[0][2].RelL2 || mean > 2*st.Records[0][2].RelL2 {
		t.Errorf("rows have a mean error of %v, the matrix %v", mean, st.Records[0][2].RelL2)
	}
	c := st.Calibrations[0]
	if c.Setup.Corpus != "calib" || c.Setup.Chunks != 3 || c.Setup.Tokens == 0 || c.Setup.Damp != 0.01 || c.End.Gate != "" || c.Setup.Rank.Experts != 16 || c.Setup.ParamsOfAll != 6*128*128 {
		t.Errorf("%+v %+v", c.Setup, c.End)
	}
	if sum := c.Summary("v"); !(sum.OutRatio < 1) || !(sum.WeightRatio > 1) || sum.Trades.Changed == 0 {
		t.Errorf("%+v", sum.Trades)
	}
	for name, f := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"another text":          {func(o *Options) { o.Calibration.Corpus, o.Calibration.Chunks = "calib", 2 }, "corpus was"},
		"other projections":     {func(o *Options) { o.Calibration.Only = []string{"gate"} }, "calibrated projections was all and is now gate"},
		"another damping":       {func(o *Options) { o.Calibration.Damp = 0.02 }, "damping was 0.01 and is now 0.02"},
		"no codes":              {func(o *Options) { o.Calibration.Codes, o.Calibration.FromCodes = t.TempDir(), true }, "there are none to go on from"},
		"a part":                {func(o *Options) { o.Part = Part{1, 2} }, "cannot be made of a part of a checkpoint"},
		"too little memory":     {func(o *Options) { o.MemBytes = 1 << 20 }, "bytes of memory"},
		"a text that is not":    {func(o *Options) { o.Calibration.Corpus, o.Calibration.Codes = "/no/such/text", t.TempDir() }, "/no/such/text"},
		"several texts":         {func(o *Options) { o.Calibration.Corpus, o.Calibration.Codes = "demo", t.TempDir() }, "holds 5 texts"},
		"a calibration that is": {func(o *Options) { o.Calibration.File, o.Calibration.Codes = "/no/such/file", t.TempDir() }, "/no/such/file"},
	} {
		p := o
		p.Session, p.Variants = sessionPath(t), []string{"int4-g128+gptq"}
		p.Calibration.Codes = codesOf(o.Session, "int4-g128+gptq")
		f.change(&p)
		_, err := Start(t.Context(), p)
		if err == nil || !strings.Contains(err.Error(), f.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(p.Session); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a session was made", name)
		}
	}
	if _, err := StartSample(t.Context(), Options{Checkpoint: "demo", Session: sessionPath(t), Variants: []string{"int4-g128+gptq"}}, mustBase(t, o.Session), []int{0}, "one"); !errors.Is(err, ErrPartCalibrated) {
		t.Errorf("a sample: %v", err)
	}
}

func mustBase(t *testing.T, path string) *Base {
	t.Helper()
	b, err := OpenBase(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func meanOf(list []float64) (sum float64) {
	for _, x := range list {
		sum += x / float64(len(list))
	}
	return sum
}

// What cannot be calibrated falls back with its reason and is counted.
func TestCalibrationFallsBack(t *testing.T) {
	o := calibOptions(sessionPath(t))
	o.Targets = "*layers.1.mlp.experts.*"
	o.Calibration.Chunks = 1
	o.Calibration.Only = []string{"gate", "up"}
	runOptions(t, o)
	st := openState(t, o.Session)
	s, ok := st.CalibrationSummary(0)
	if !ok || s.Trades.Chosen != 16 || s.Trades.Calibrated != 32 || s.Trades.FellBack != 0 || s.FellBackShare != 0 {
		t.Errorf("%+v", s.Trades)
	}
	for i, m := range st.Trades(0) {
		if down := st.Tensors[i].Role.Projection == "down"; down != m.Chosen || down && m.Effective != "int4-g128" || down && m.Changed != 0 {
			t.Errorf("%s: %+v", st.Tensors[i].Name, m)
		}
	}
	for _, e := range st.Log {
		if e.Kind == EventFallback {
			t.Errorf("a fallback: %s", e.Message)
		}
	}
}

package sessions

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"quantscope/quant/demo"
	"quantscope/quant/export"
)

// synthetic writes a checkpoint of six or so shards with two layers of experts.
func synthetic(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	if err := (demo.Synth{Layers: 2, Experts: 4, Hidden: 64, Intermediate: 64, Seed: 3, ShardBytes: 128 << 10}).Write(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runExport runs a job with an export to its end.
func runExport(t *testing.T, ctx context.Context, o Options, change func(*Job)) (Export, error) {
	t.Helper()
	job, err := openJob(o)
	if err != nil {
		return Export{}, err
	}
	if change != nil {
		change(job)
	}
	l, err := StartJob(ctx, job, o)
	if err != nil {
		return Export{}, err
	}
	_, err = l.Wait(t.Context())
	err = errors.Join(err, l.Close())
	x, _ := l.Export()
	return x, err
}

// folderBytes are all files of a folder.
func folderBytes(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func sameFolders(t *testing.T, want, got map[string][]byte) {
	t.Helper()
	for name, b := range want {
		if !bytes.Equal(b, got[name]) {
			t.Errorf("%s: %d bytes, want %d", name, len(got[name]), len(b))
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s should not be there", name)
		}
	}
}

func exportOptions(t *testing.T, source, base string) Options {
	return Options{
		Checkpoint: source, Session: filepath.Join(base, "s.qscope"), Variants: []string{"nvfp4+mse"}, Threads: 2,
		Export: &ExportOptions{Dir: filepath.Join(base, "out"), Layout: export.ModelOpt},
	}
}

// TestExportDoesNotDependOnHow: whole, in pieces, interrupted and resumed, or in
// parts, the folder has the same bytes.
func TestExportDoesNotDependOnHow(t *testing.T) {
	source := synthetic(t)
	o := exportOptions(t, source, t.TempDir())
	x, err := runExport(t, t.Context(), o, nil)
	if err != nil || x.State != ExportWhole || x.Files == 0 {
		t.Fatalf("%+v, %v", x, err)
	}
	want := folderBytes(t, o.Export.Dir)
	taps := tapPayloads(t, o.Session)

	t.Run("in pieces", func(t *testing.T) {
		o := exportOptions(t, source, t.TempDir())
		o.MemBytes, o.Threads = 1000, 1
		if _, err := runExport(t, t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
		sameFolders(t, want, folderBytes(t, o.Export.Dir))
	})
	t.Run("resumed", func(t *testing.T) {
		o := exportOptions(t, source, t.TempDir())
		o.Threads = 1
		for n := 1; ; n += 2 {
			ctx, cancel := context.WithCancel(t.Context())
			var reads atomic.Int64
			x, err := runExport(t, ctx, o, func(j *Job) {
				j.Source = &counted{storedSource: j.Source.(*storedSource), before: func() {
					if reads.Add(1) == int64(n) {
						cancel()
					}
				}}
			})
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if x.State == ExportWhole {
				break
			}
			if x.State == "" { // before it began
				continue
			}
			if _, err := os.Stat(filepath.Join(o.Export.Dir, "config.json")); x.State != ExportIncomplete || err == nil {
				t.Fatalf("interrupted: %+v, config.json %v", x, err)
			}
			o.Export.Resume = true
		}
		sameFolders(t, want, folderBytes(t, o.Export.Dir))
		if got := tapPayloads(t, o.Session); len(got) != len(taps) {
			t.Errorf("%d records of %d", len(got), len(taps))
		}
	})
	t.Run("parts", func(t *testing.T) {
		base := t.TempDir()
		for k := 3; k >= 1; k-- {
			o := exportOptions(t, source, base)
			o.Session = filepath.Join(base, string(rune('a'+k))+".qscope")
			o.Part = Part{k, 3}
			x, err := runExport(t, t.Context(), o, nil)
			if err != nil || k > 1 && (x.State != ExportPart || len(x.Missing) != k-1) || k == 1 && x.State != ExportWhole {
				t.Fatalf("part %d: %+v, %v", k, x, err)
			}
		}
		sameFolders(t, want, folderBytes(t, filepath.Join(base, "out")))
	})
}

// TestExportedAgainIsCompared: what was measured before and comes out otherwise
// now stops the export by name.
func TestExportedAgainIsCompared(t *testing.T) {
	source := synthetic(t)
	o := exportOptions(t, source, t.TempDir())
	x := o.Export
	o.Export, o.GlobalScale = nil, "shared"
	if _, err := runExport(t, t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	db := openState(t, o.Session)
	o.Export = x
	_, err := runExport(t, t.Context(), o, func(j *Job) {
		parse := j.Parse
		j.Parse = func(name string) (Quantizer, error) { // as if the kernels had changed
			q, err := parse(name)
			q.Spec.Method = "rtn"
			return q, err
		}
	})
	var wrong *ExportError
	if !errors.As(err, &wrong) {
		t.Fatalf("error %v", err)
	}
	oneLineOf(t, err, x.Dir, `tensor "model.layers.`, "quantized again it is not what the session's record says")
	if _, err := os.Stat(filepath.Join(x.Dir, "config.json")); err == nil {
		t.Error("the export looks whole")
	}
	st := openState(t, o.Session)
	for i, r := range st.Records[0] {
		if !sameRecord(r, db.Records[0][i]) {
			t.Fatalf("tensor %d: its record changed", i)
		}
	}
	o.Export.Resume = true
	if x, err := runExport(t, t.Context(), o, nil); err != nil || x.State != ExportWhole {
		t.Errorf("with the right kernels: %+v, %v", x, err)
	}
}

// TestExportOfBrokenWeights: a tensor that cannot be quantized leaves the export
// marked, and every other one measured.
func TestExportOfBrokenWeights(t *testing.T) {
	source := synthetic(t)
	job, err := openJob(Options{Checkpoint: source})
	if err != nil {
		t.Fatal(err)
	}
	src := job.Source.(*storedSource)
	file, off, _, _ := src.Run(5)
	f, err := os.OpenFile(filepath.Join(source, src.ck.Files[file].Name), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(binary.LittleEndian.AppendUint16(nil, 0x7fc0), off); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), job.Source.Close()); err != nil {
		t.Fatal(err)
	}
	o := exportOptions(t, source, t.TempDir())
	x, err := runExport(t, t.Context(), o, nil)
	if err != nil || x.State != ExportIncomplete {
		t.Fatalf("%+v, %v", x, err)
	}
	st := openState(t, o.Session)
	if p := st.Progress; p.State != RunFinished || p.Failed != 1 || p.Done != p.Total-1 {
		t.Errorf("%+v", p)
	}
	if last := st.Log[len(st.Log)-1]; !strings.Contains(last.Message, o.Export.Dir+" is incomplete") {
		t.Errorf("%q", last.Message)
	}
	if _, err := os.Stat(filepath.Join(o.Export.Dir, "config.json")); err == nil {
		t.Error("the export looks whole")
	}
}

// TestGlobalScaleIsShared by gate and up of an expert, and is a setting.
func TestGlobalScaleIsShared(t *testing.T) {
	source := synthetic(t)
	scales := func(word string) (*State, map[string]float64) {
		o := Options{Checkpoint: source, Session: sessionPath(t), Variants: []string{"nvfp4"}, GlobalScale: word}
		if _, err := runExport(t, t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
		st := openState(t, o.Session)
		got := map[string]float64{}
		for i, ts := range st.Tensors {
			got[ts.Name] = st.Records[0][i].GlobalScale
		}
		o.GlobalScale = map[string]string{"shared": "tensor", "tensor": "shared"}[word]
		var se *SettingsError
		if _, err := runExport(t, t.Context(), o, nil); !errors.As(err, &se) || se.Setting != SettingGlobalScale || se.Old != word {
			t.Errorf("error %v", err)
		}
		return st, got
	}
	_, own := scales("tensor")
	st, shared := scales("shared")
	different := 0
	for _, ts := range st.Tensors {
		if ts.Role.Projection != "gate" {
			continue
		}
		up := strings.Replace(ts.Name, "gate_proj", "up_proj", 1)
		down := strings.Replace(ts.Name, "gate_proj", "down_proj", 1)
		if want := max(own[ts.Name], own[up]); shared[ts.Name] != want || shared[up] != want {
			t.Errorf("%s: %v and %v, want %v", ts.Name, shared[ts.Name], shared[up], want)
		}
		if own[ts.Name] != own[up] {
			different++
		}
		if shared[down] != own[down] {
			t.Errorf("%s has no partner: %v, was %v", down, shared[down], own[down])
		}
	}
	if different == 0 {
		t.Error("gate and up have the same scale by themselves")
	}
}

// TestExportRefusals leave neither a session nor a folder.
func TestExportRefusals(t *testing.T) {
	source := synthetic(t)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "thesis.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(o *Options)
		says   string
	}{
		"two variants":    {func(o *Options) { o.Variants = []string{"nvfp4", "nvfp4+mse"} }, "one variant"},
		"the source":      {func(o *Options) { o.Export.Dir = source }, "the source's own"},
		"other files":     {func(o *Options) { o.Export.Dir = full }, "thesis.txt"},
		"unknown layout":  {func(o *Options) { o.Export.Layout = "exl9" }, `layout "exl9"`},
		"convention":      {func(o *Options) { o.Compat = "ct" }, "convention ct"},
		"too many parts":  {func(o *Options) { o.Part = Part{1, 999} }, "999 parts of"},
		"unknown compat":  {func(o *Options) { o.Compat = "mine" }, `convention "mine"`},
		"foreign compat":  {func(o *Options) { o.Compat = "own" }, "convention own is not one of nvfp4"},
		"nothing resumed": {func(o *Options) { o.Export.Dir, o.Export.Resume = full, true }, "thesis.txt"},
	} {
		o := exportOptions(t, source, t.TempDir())
		c.change(&o)
		_, err := runExport(t, t.Context(), o, nil)
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		oneLineOf(t, err, c.says)
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Session), "*")); len(left) > 0 {
			t.Errorf("%s: leaves %q", what, left)
		}
	}
}

// A run whose measurements are all there and whose export is not was cancelled.
func TestEndingWithTheExportToDo(t *testing.T) {
	for _, c := range []struct {
		err      error
		undone   int64
		cutShort bool
		want     EventKind
	}{
		{nil, 0, false, EventFinished}, {nil, 0, true, EventCancelled}, {nil, 1, true, EventCancelled}, {errors.New("full"), 0, true, EventStopped},
	} {
		if kind, _ := ending(c.err, c.undone, 5, c.cutShort); kind != c.want {
			t.Errorf("%+v: %s", c, kind)
		}
	}
	var none *exporting
	if none.cutShort() {
		t.Error("no export was cut short")
	}
	x := &exporting{state: ExportIncomplete}
	if !x.cutShort() {
		t.Error("an incomplete export was not")
	}
}

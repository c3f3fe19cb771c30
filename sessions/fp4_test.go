package sessions

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/recode"
	"quantscope/quant/recode/recodetest"
	"quantscope/quant/topology"
)

func fp4Options(source, base, variant string) Options {
	return Options{
		Checkpoint: source, Session: filepath.Join(base, "s.qscope"), Variants: []string{variant}, Threads: 2,
		Export: &ExportOptions{Dir: filepath.Join(base, "out")},
	}
}

// rawOf is a checkpoint's tensors, by name, and the headers of its files.
func rawOf(t *testing.T, dir string) (tensors map[string][]byte, headers map[string][32]byte) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	tensors, headers = map[string][]byte{}, map[string][32]byte{}
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		raw := make([]byte, x.Size)
		if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
			t.Fatal(err)
		}
		tensors[x.Name] = raw
	}
	for _, f := range ck.Files {
		headers[f.Name] = f.HeaderSHA256
	}
	return tensors, headers
}

// modulesOf decodes all FP4 matrices of a checkpoint by its layout's own formula, by the
// name of the matrix.
func modulesOf(t *testing.T, dir string) map[string][]float32 {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	lay, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	if len(lay.Findings) > 0 {
		t.Errorf("%s: %v", dir, lay.Findings[0])
	}
	out := map[string][]float32{}
	for i := range lay.Modules {
		m := &lay.Modules[i]
		w := make([]float32, m.Rows*m.Cols)
		if err := m.Dequantize(t.Context(), w, 0, &layout.Stored{}); err != nil {
			t.Fatal(err)
		}
		name := m.CodeTensor().Name
		if m.Expert >= 0 {
			name = fmt.Sprintf("%s[%d]", name, m.Expert)
		}
		out[name] = w
	}
	return out
}

// isCodes says whether a tensor of the fixtures holds codes.
func isCodes(form, name string) bool {
	_, param := layout.Split(name)
	return strings.Contains(name, ".experts.") && (param == "weight" || param == "weight_packed" || param == "blocks")
}

// nearest is what becomes of a code under the four values in use: the nearest, of two
// the one with the smaller magnitude, of ±v the positive one.
func nearest(v float32, book map[float32]bool) float32 {
	best := float32(math.Inf(1))
	for b := range book {
		d, e := math.Abs(float64(b-v)), math.Abs(float64(best-v))
		if d < e || d == e && (math.Abs(float64(b)) < math.Abs(float64(best)) || b == -best && b > 0) {
			best = b
		}
	}
	return best
}

// TestFP4AsSource: of every way of storing FP4 the copy has the source's bytes but for
// codes: headers, index, config and what lies beside them too. Each matrix is limited to
// four values, an expert of a stack to its own, each code became the nearest of them, and
// the record says what the two folders' values say.
func TestFP4AsSource(t *testing.T) {
	for _, form := range recodetest.Forms() {
		t.Run(form, func(t *testing.T) {
			source := recodetest.Write(t, form, recodetest.Tensors(form, 1))
			o := fp4Options(source, t.TempDir(), "code2+l2")
			x, err := runExport(t, t.Context(), o, nil)
			if err != nil || x.State != ExportWhole || x.Layout != export.Source {
				t.Fatalf("%+v, %v", x, err)
			}
			was, wasHeaders := rawOf(t, source)
			is, headers := rawOf(t, o.Export.Dir)
			for file, sum := range wasHeaders {
				if headers[file] != sum {
					t.Errorf("the header of %s changed", file)
				}
			}
			changed := 0
			for name, raw := range was {
				if same := bytes.Equal(raw, is[name]); !same && !isCodes(form, name) {
					t.Errorf("%s changed", name)
				} else if !same {
					changed++
				}
			}
			if want := recodetest.Matrices(form); changed != want && changed*recodetest.Experts != want {
				t.Errorf("codes of %d tensors changed, for %d matrices", changed, want)
			}
			files, copies := folderBytes(t, source), folderBytes(t, o.Export.Dir)
			for name, b := range files {
				if !strings.HasSuffix(name, ".safetensors") && !bytes.Equal(b, copies[name]) || len(b) != len(copies[name]) {
					t.Errorf("%s changed", name)
				}
			}
			if len(files) != len(copies) {
				t.Errorf("%d files, were %d", len(copies), len(files))
			}
			checkFP4Records(t, openState(t, o.Session), form, modulesOf(t, source), modulesOf(t, o.Export.Dir))
		})
	}
}

// checkFP4Records holds records against the values of both checkpoints.
func checkFP4Records(t *testing.T, st *State, form string, w, q map[string][]float32) {
	t.Helper()
	want := recodetest.Matrices(form)
	if len(st.Tensors) != want || st.Progress.Done != int64(want) || st.Progress.Failed != 0 {
		t.Fatalf("%d tensors, %d done, want %d", len(st.Tensors), st.Progress.Done, want)
	}
	scheme, bits, unit := "code2", 2.5, 16
	if strings.Contains(form, "mxfp4") {
		scheme, bits, unit = "code2-mxfp4", 2.25, 32
	}
	if v := st.Variants[0]; v.Name != "code2" || v.Effective != scheme || v.Scheme != scheme || v.BitsPerWeight != bits {
		t.Errorf("variant %+v", v)
	}
	for i, x := range st.Tensors {
		a, b := w[x.Name], q[x.Name]
		if len(a) == 0 || len(a) != x.Rows*x.Cols || len(b) != len(a) {
			t.Fatalf("no values of %s", x.Name)
		}
		if !isFP4(x.DType) || SourceBytes(&x) < int64(len(a))/2 {
			t.Errorf("%s is %s of %d bytes", x.Name, x.DType, SourceBytes(&x))
		}
		var e2, w2, sum, abs float64
		for k := range a {
			d := float64(a[k]) - float64(b[k])
			e2, w2, sum, abs = e2+d*d, w2+float64(a[k])*float64(a[k]), sum-d, abs+math.Abs(float64(a[k]))
		}
		r := &st.Records[0][i]
		if got := float64(r.Rel2); math.Abs(got-e2/w2) > 1e-5*got || got < 0.01 || math.Abs(float64(r.Bias)-sum/abs) > 1e-5 {
			t.Errorf("%s: rel2 %v and bias %v, want %v and %v", x.Name, got, r.Bias, e2/w2, sum/abs)
		}
		checkFP4Codes(t, x.Name, a, b, unit)
	}
}

// checkFP4Codes finds the step of each block in what the reference's values have in
// common, and then that every value became the nearest of four.
func checkFP4Codes(t *testing.T, name string, a, b []float32, unit int) {
	t.Helper()
	steps := make([]float64, 0, len(a)/unit)
	book := map[float32]bool{}
	for at := 0; at < len(a); at += unit {
		step := stepOfBlock(a[at:at+unit], b[at:at+unit])
		steps = append(steps, step)
		for k := at; k < at+unit && step > 0; k++ {
			book[halfUnits(b[k], step)] = true
		}
	}
	if len(book) > 4 {
		t.Fatalf("%s: %d values are in use: %v", name, len(book), book)
	}
	if len(book) < 4 {
		return
	}
	for k := range a {
		step := steps[k/unit]
		if step == 0 {
			continue
		}
		if from, to := halfUnits(a[k], step), halfUnits(b[k], step); nearest(from, book) != to {
			t.Fatalf("%s: %v became %v, and the values are %v", name, from, to, book)
		}
	}
}

// stepOfBlock is what a code of 1 stands for: of values that are 0, ½, 1, 1½, 2, 3, 4 or
// 6 steps the largest step that explains all. Fixtures have blocks in which 6 or 4 is in
// use, and so the largest value is one of these.
func stepOfBlock(a, b []float32) float64 {
	most := 0.0
	for _, v := range a {
		most = max(most, math.Abs(float64(v)))
	}
	for _, top := range []float64{0.5, 1, 1.5, 2, 3, 4, 6} {
		step := most / top
		fits := true
		for _, v := range append(append([]float32(nil), a...), b...) {
			u := math.Abs(float64(v)) / step * 2
			r := math.Round(u)
			fits = fits && math.Abs(u-r) < 0.02 && (r <= 4 || r == 6 || r == 8 || r == 12)
		}
		if fits && most > 0 {
			return step
		}
	}
	return 0
}

func halfUnits(v float32, step float64) float32 {
	return float32(math.Round(2*float64(v)/step) / 2)
}

// TestFP4DoesNotDependOnHow: with little memory, interrupted and resumed, or in parts, the
// folder has the same bytes and the session the same records; so has the layout that
// packs two bits.
func TestFP4DoesNotDependOnHow(t *testing.T) {
	const form = recodetest.CTMXFP4
	source := recodetest.Write(t, form, recodetest.Tensors(form, 2))
	for _, lay := range []string{export.Source, export.Own} {
		options := func(base string) Options {
			o := fp4Options(source, base, "code2+sym")
			o.Export.Layout = lay
			return o
		}
		o := options(t.TempDir())
		x, err := runExport(t, t.Context(), o, nil)
		if err != nil || x.State != ExportWhole {
			t.Fatalf("%s: %+v, %v", lay, x, err)
		}
		want, taps := folderBytes(t, o.Export.Dir), tapPayloads(t, o.Session)

		t.Run(lay+" with little memory", func(t *testing.T) {
			o := options(t.TempDir())
			o.MemBytes, o.Threads = 1, 1
			if _, err := runExport(t, t.Context(), o, nil); err != nil {
				t.Fatal(err)
			}
			sameFolders(t, want, folderBytes(t, o.Export.Dir))
		})
		t.Run(lay+" resumed", func(t *testing.T) {
			o := options(t.TempDir())
			o.Threads = 1
			for n := int64(1); ; n += 3 {
				ctx, cancel := context.WithCancel(t.Context())
				var puts atomic.Int64
				x, err := runExport(t, ctx, o, func(j *Job) {
					put := j.export.put
					j.export.put = func(ctx context.Context, t int, codes []byte, book uint16) error {
						if puts.Add(1) == n {
							cancel()
						}
						return put(ctx, t, codes, book)
					}
				})
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				if x.State == ExportWhole {
					break
				}
				if _, ok := folderBytes(t, o.Export.Dir)["config.json"]; ok || n > 100 {
					t.Fatalf("interrupted after %d: %+v, config.json %v", n, x, ok)
				}
				o.Export.Resume = true
			}
			sameFolders(t, want, folderBytes(t, o.Export.Dir))
			if got := tapPayloads(t, o.Session); fmt.Sprint(got) != fmt.Sprint(taps) {
				t.Error("the records differ")
			}
		})
		t.Run(lay+" in parts", func(t *testing.T) {
			base := t.TempDir()
			for k := range 2 {
				o := options(base)
				o.Part, o.Session = Part{k + 1, 2}, filepath.Join(base, fmt.Sprint(k, ".qscope"))
				x, err := runExport(t, t.Context(), o, nil)
				if err != nil || (x.State == ExportWhole) != (k == 1) {
					t.Fatalf("part %d: %+v, %v", k+1, x, err)
				}
			}
			sameFolders(t, want, folderBytes(t, filepath.Join(base, "out")))
		})
		t.Run(lay+" with other targets", func(t *testing.T) {
			o := options(t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			_, _ = runExport(t, ctx, o, func(j *Job) {
				put := j.export.put
				j.export.put = func(ctx context.Context, t int, codes []byte, book uint16) error {
					cancel()
					return put(ctx, t, codes, book)
				}
			})
			cancel()
			o.Export.Resume, o.Targets, o.Session = true, "re:.*experts\\.1\\..*", filepath.Join(t.TempDir(), "t.qscope")
			if _, err := runExport(t, t.Context(), o, nil); err == nil {
				t.Error("an export of other targets was gone on with")
			}
		})
	}
}

// TestFP4PartOfStack: of a stack of experts some are targets; the others keep their
// bytes, whichever stand between.
func TestFP4PartOfStack(t *testing.T) {
	const form = recodetest.GPTOSS
	source := recodetest.Write(t, form, recodetest.Tensors(form, 3))
	o := fp4Options(source, t.TempDir(), "code2")
	o.Targets = `re:model\.layers\.0\..*down_proj_blocks\[1\],re:model\.layers\.1\..*gate_up_proj_blocks\[[02]\]`
	if x, err := runExport(t, t.Context(), o, nil); err != nil || x.State != ExportWhole {
		t.Fatalf("%+v, %v", x, err)
	}
	was, _ := rawOf(t, source)
	is, _ := rawOf(t, o.Export.Dir)
	for name, raw := range was {
		for e := range recodetest.Experts {
			n := len(raw) / recodetest.Experts
			if len(raw)%recodetest.Experts != 0 {
				n = len(raw)
			}
			from := min(e*n, len(raw))
			to := min(from+n, len(raw))
			target := name == "model.layers.0.mlp.experts.down_proj_blocks" && e == 1 || name == "model.layers.1.mlp.experts.gate_up_proj_blocks" && e != 1
			if bytes.Equal(raw[from:to], is[name][from:to]) == target {
				t.Errorf("%s, expert %d: changed: %v", name, e, !target)
			}
		}
	}
	if n := len(openState(t, o.Session).Tensors); n != 3 {
		t.Errorf("%d matrices", n)
	}
}

// TestFP4Ends: scales at the ends of E8M0 and blocks of zeros have a defined result; a
// scale that is NaN and codes that do not fit their scales are refused by name, and no
// folder is finished.
func TestFP4Ends(t *testing.T) {
	const form, name = recodetest.DeepSeek, "model.layers.1.mlp.experts.2.down_proj"
	edited := func(f func(x *recodetest.Tensor)) string {
		list := recodetest.Tensors(form, 4)
		for i := range list {
			f(&list[i])
		}
		return recodetest.Write(t, form, list)
	}
	scale := func(b ...byte) string {
		return edited(func(x *recodetest.Tensor) {
			switch x.Name {
			case name + ".scale":
				copy(x.Data, b)
			case name + ".weight":
				clear(x.Data[:16])
			}
		})
	}
	t.Run("smallest and largest", func(t *testing.T) {
		o := fp4Options(scale(0, 0, 252), t.TempDir(), "code2+sym")
		x, err := runExport(t, t.Context(), o, nil)
		if err != nil || x.State != ExportWhole {
			t.Fatalf("%+v, %v", x, err)
		}
		for _, v := range modulesOf(t, o.Export.Dir)[name+".weight"][:64] {
			if math.Abs(float64(v)) > math.Ldexp(6, -127) {
				t.Errorf("%v under a scale of 2⁻¹²⁷", v)
			}
		}
		st := openState(t, o.Session)
		for i := range st.Tensors {
			if r := &st.Records[0][i]; st.Tensors[i].Name == name+".weight" && (r.Failed || !(float64(r.Rel2) > 0 && float64(r.Rel2) < 1)) {
				t.Errorf("record %+v", r)
			}
		}
	})
	t.Run("NaN", func(t *testing.T) {
		o := fp4Options(scale(120, 255), t.TempDir(), "code2+sym")
		x, err := runExport(t, t.Context(), o, nil)
		if err != nil || x.State != ExportIncomplete {
			t.Fatalf("%+v, %v", x, err)
		}
		st := openState(t, o.Session)
		if st.Progress.Failed != 1 {
			t.Errorf("%d failed", st.Progress.Failed)
		}
		said := ""
		for _, e := range st.Log {
			if e.Kind == EventFailed {
				said = e.Message
			}
		}
		for _, s := range []string{name + ".weight", "32 NaN, the first at [0,32]", "model-00002-of-00002.safetensors"} {
			if !strings.Contains(said, s) {
				t.Errorf("%q does not say %q", said, s)
			}
		}
		if _, ok := folderBytes(t, o.Export.Dir)["config.json"]; ok {
			t.Error("the folder looks finished")
		}
	})
	t.Run("shape", func(t *testing.T) {
		o := fp4Options(edited(func(x *recodetest.Tensor) {
			if x.Name == name+".scale" {
				x.Shape, x.Data = []int64{recodetest.Hidden, 2}, x.Data[:recodetest.Hidden*2]
			}
		}), t.TempDir(), "code2")
		_, err := runExport(t, t.Context(), o, nil)
		oneLineOf(t, err, name, "model-00002-of-00002.safetensors", "want a scale for each 32 of 96 inputs")
		var file *checkpoint.FileError
		if !errors.As(err, &file) {
			t.Errorf("%T", err)
		}
	})
}

// TestFP4Refused: what cannot be made of FP4 codes says why and what can, and nothing is
// left behind.
func TestFP4Refused(t *testing.T) {
	nv := recodetest.Write(t, recodetest.ModelOpt, recodetest.Tensors(recodetest.ModelOpt, 5))
	for name, c := range map[string]struct {
		change func(o *Options)
		is     error
		says   []string
	}{
		"another scheme":       {func(o *Options) { o.Variants = []string{"nvfp4+mse"} }, nil, []string{"nothing to quantize", "code2+l2, code2+sym"}},
		"one beside two bits":  {func(o *Options) { o.Variants = []string{"code2", "int4-g128"}; o.Export = nil }, recode.ErrVariant, []string{"int4-g128", "code2+l2, code2+sym"}},
		"calibrated":           {func(o *Options) { o.Variants = []string{"code2+sym+gptq"} }, recode.ErrVariant, []string{"code2+sym+gptq", "possible: code2+sym"}},
		"other scales":         {func(o *Options) { o.Variants = []string{"code2-mxfp4"} }, recode.ErrVariant, []string{"NVFP4's scales", "possible: code2"}},
		"a convention":         {func(o *Options) { o.Compat = "ct" }, recode.ErrVariant, []string{"scales are the checkpoint's"}},
		"shared scales":        {func(o *Options) { o.GlobalScale = "shared" }, recode.ErrVariant, []string{"scales are the checkpoint's"}},
		"a layout":             {func(o *Options) { o.Export.Layout = export.ModelOpt }, export.ErrLayout, []string{"known: source", "quantscope"}},
		"packed, not all":      {func(o *Options) { o.Export.Layout, o.Targets = export.Own, "*experts.0.*" }, export.ErrLayout, []string{"no target", "layout source"}},
		"no FP4 target":        {func(o *Options) { o.Targets = "*self_attn*" }, nil, []string{"nothing to quantize", "stored as BF16", "only FP4 codes"}},
		"a folder of its own":  {func(o *Options) { o.Export.Dir = nv }, export.ErrOutput, []string{"the source's own"}},
		"its layout elsewhere": {func(o *Options) { o.Checkpoint, o.Export.Layout = "demo", export.Source }, export.ErrLayout, []string{"floating point"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := fp4Options(nv, t.TempDir(), "code2")
			c.change(&o)
			_, err := runExport(t, t.Context(), o, nil)
			oneLineOf(t, err, c.says...)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is no %v", err, c.is)
			}
		})
	}
}

// TestFP4Session: a session is gone on with by what it holds, adds variants, tells the
// errors of rows, and can be a base of a sample.
func TestFP4Session(t *testing.T) {
	source := recodetest.Write(t, recodetest.StackedNV, recodetest.Tensors(recodetest.StackedNV, 6))
	o := Options{Checkpoint: source, Session: sessionPath(t), Variants: []string{"code2+sym"}, Targets: "*", Threads: 1}
	run := func(o Options) *State {
		t.Helper()
		l, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = l.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, err := l.RowErrors(t.Context(), 0, 1)
		if err != nil || len(rows) != l.Snapshot().Tensors[1].Rows {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return openState(t, o.Session)
	}
	st := run(o)
	left := 0
	for _, e := range st.Log {
		if e.Kind == EventFinding && strings.Contains(e.Message, "left out") {
			left++
		}
	}
	if len(st.Tensors) != recodetest.Matrices(recodetest.StackedNV) || left != 1 || st.Progress.Failed != 0 {
		t.Errorf("%d tensors, %d findings about what was left out", len(st.Tensors), left)
	}
	o.Variants = nil
	run(o)
	o.Variants = []string{"code2", "code2+sym"}
	if st = run(o); len(st.Variants) != 2 || st.Progress.Done != 2*int64(len(st.Tensors)) {
		t.Errorf("%d variants, %d done", len(st.Variants), st.Progress.Done)
	}
	feed, err := OpenSession(o.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	rows, err := feed.RowErrors(t.Context(), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	// Rows and record say the same error: Σ rel²·‖w‖² over the rows.
	w := modulesOf(t, source)[st.Tensors[2].Name]
	var e2, w2 float64
	for r, rel := range rows {
		sum := 0.0
		for _, v := range w[r*st.Tensors[2].Cols:][:st.Tensors[2].Cols] {
			sum += float64(v) * float64(v)
		}
		e2, w2 = e2+rel*rel*sum, w2+sum
	}
	if got := float64(st.Records[0][2].Rel2); math.Abs(got-e2/w2) > 1e-5*got {
		t.Errorf("rows come to a rel2 of %v, the record has %v", e2/w2, got)
	}
	base, err := OpenBase(t.Context(), o.Session)
	if err != nil {
		t.Fatal(err)
	}
	l, err := StartSample(t.Context(), Options{Checkpoint: source, Session: sessionPath(t), Variants: []string{"code2+sym"}}, base, []int{1, 4}, "drawn")
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	path := l.Path()
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if got := openState(t, path); len(got.Tensors) != 2 || got.Records[0][1].Rel2 != st.Records[0][4].Rel2 || got.Tensors[1].Name != st.Tensors[4].Name {
		t.Errorf("a sample of %d tensors, %v, want %v", len(got.Tensors), got.Records[0], st.Records[0][4].Rel2)
	}
}

// Weights that changed since they were measured are told by a digest of what is stored.
func TestFP4Digest(t *testing.T) {
	list := recodetest.Tensors(recodetest.CTNVFP4, 7)
	source := recodetest.Write(t, recodetest.CTNVFP4, list)
	src := func(dir string) *fp4Source {
		job, err := openJob(Options{Checkpoint: dir, Variants: []string{"code2"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = job.Source.Close() })
		return job.Source.(*fp4Source)
	}
	digests := func(s *fp4Source) (out []digest) {
		for i := range s.matrices {
			m, err := s.Read(t.Context(), i, make([]byte, s.Need(i)))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, digestOf(m.Data, false))
		}
		return out
	}
	was := digests(src(source))
	for i := range list {
		if strings.HasSuffix(list[i].Name, "experts.1.up_proj.weight_global_scale") {
			v := math.Float32frombits(binary.LittleEndian.Uint32(list[i].Data))
			binary.LittleEndian.PutUint32(list[i].Data, math.Float32bits(v*2))
		}
	}
	differ := 0
	for i, d := range digests(src(recodetest.Write(t, recodetest.CTNVFP4, list))) {
		if d.differs(was[i]) {
			differ++
		}
	}
	if differ != recodetest.Layers {
		t.Errorf("%d digests differ, of %d scales", differ, recodetest.Layers)
	}
}

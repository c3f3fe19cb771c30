package sessions

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/landscape"
	"quantscope/quant/demo"
)

// ran is the state of a run that goes to its end.
func ran(t *testing.T, feed *LiveFeed, err error) *State {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	_, err = feed.Wait(t.Context())
	if err := errors.Join(err, feed.Close()); err != nil {
		t.Fatal(err)
	}
	return openState(t, feed.Path())
}

func openBase(t *testing.T, path string) *Base {
	t.Helper()
	b, err := OpenBase(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSampleMeasuresTheSame: a tensor has the same record in a sample as in a run
// over all, also under scales that are shared with matrices outside of the sample.
func TestSampleMeasuresTheSame(t *testing.T) {
	for _, globals := range []string{"tensor", "shared"} {
		dir := t.TempDir()
		o := Options{Checkpoint: "demo", Session: filepath.Join(dir, "all.qscope"), Variants: []string{"nvfp4", "nvfp4+mse"}, GlobalScale: globals}
		feed, err := Start(t.Context(), o)
		all := ran(t, feed, err)
		b := openBase(t, o.Session)
		ids := []int{200, 7, 8, 31, 7, 0, len(all.Tensors) - 1}
		so := Options{Checkpoint: "demo", Session: filepath.Join(dir, "some.qscope"), Variants: []string{"nvfp4+mse", "nvfp4"}}
		feed, err = StartSample(t.Context(), so, b, ids, "picked")
		some := ran(t, feed, err)
		if len(some.Tensors) != 6 || some.Progress.Done != 12 || some.Meta.Targets != "picked of default: routed experts" {
			t.Fatalf("%d tensors, %+v, %q", len(some.Tensors), some.Progress, some.Meta.Targets)
		}
		for i, id := range []int{0, 7, 8, 31, 200, len(all.Tensors) - 1} {
			for v, name := range so.Variants {
				got, want := some.Records[v][i], all.Records[all.VariantByName(name)][id]
				got.Variant, got.Tensor = want.Variant, want.Tensor
				if some.Tensors[i].Name != all.Tensors[id].Name || !got.sameFigures(&want) || got.Weights != want.Weights {
					t.Errorf("%s scale, %s under %s: %+v, over all %+v", globals, some.Tensors[i].Name, name, got, want)
				}
			}
		}
		table := b.SampleTable(0, some)
		if len(table.Arms) != 2 || table.Arms[0].Name != "nvfp4" || table.Arms[1].Name != "nvfp4+mse" || len(table.Items) != len(all.Tensors) {
			t.Fatalf("%d arms, %d items", len(table.Arms), len(table.Items))
		}
		for i := range table.Items {
			in := slices.Contains(ids, i)
			if got := table.Arms[1].Samples[i].State; (got == landscape.Measured) != in || (table.Arms[1].Bytes[i] > 0) != in {
				t.Errorf("item %d, in the sample %v: %v, %d bytes", i, in, got, table.Arms[1].Bytes[i])
			}
			if in && table.Arms[1].Samples[i].Rel2 != all.Records[1][i].Rel2 || table.Arms[0].Samples[i].Rel2 != all.Records[0][i].Rel2 {
				t.Errorf("item %d has other figures", i)
			}
		}
	}
}

// TestSampleTableFillsIn: what the base session did not come to is the run's.
func TestSampleTableFillsIn(t *testing.T) {
	dir := t.TempDir()
	o := Options{Checkpoint: "demo", Session: filepath.Join(dir, "all.qscope"), Variants: []string{"nvfp4"}}
	feed, err := Start(t.Context(), o)
	all := ran(t, feed, err)
	b := openBase(t, o.Session)
	feed, err = StartSample(t.Context(), Options{Checkpoint: "demo", Session: filepath.Join(dir, "some.qscope"), Variants: []string{"nvfp4", "mxfp4"}}, b, []int{3, 4}, "two")
	some := ran(t, feed, err)
	b.st.Records[0][3] = Record{} // as if it had been interrupted before it
	table := b.SampleTable(0, some)
	if len(table.Arms) != 2 || table.Arms[0].Samples[3].Rel2 != all.Records[0][3].Rel2 || table.Arms[0].Samples[5].State != landscape.Measured || table.Arms[1].Name != "mxfp4" {
		t.Errorf("%+v", table.Arms[0].Samples[3])
	}
	if it := table.Items[4]; math.IsNaN(it.Std) || it.Std != some.Records[0][1].Std {
		t.Errorf("%+v", it)
	}
}

func TestSampleIsGoneOnWith(t *testing.T) {
	dir := t.TempDir()
	base, path := filepath.Join(dir, "all.qscope"), filepath.Join(dir, "some.qscope")
	feed, err := Start(t.Context(), Options{Checkpoint: "demo", Session: base, Variants: []string{"nvfp4"}})
	ran(t, feed, err)
	b := openBase(t, base)
	o := Options{Checkpoint: "demo", Session: path, Variants: []string{"mxfp4"}}
	feed, err = StartSample(t.Context(), o, b, []int{3, 4}, "two")
	ran(t, feed, err)
	o.Variants = []string{"mxfp4", "fp8"}
	feed, err = StartSample(t.Context(), o, b, []int{4, 3}, "two")
	if st := ran(t, feed, err); st.Progress.Done != 4 || len(st.Variants) != 2 {
		t.Errorf("%+v", st.Progress)
	}
	var refused *SettingsError
	for _, c := range []struct {
		ids []int
		how string
	}{{[]int{3, 5}, "two"}, {[]int{3, 4}, "a pair"}, {[]int{3}, "two"}} {
		if _, err := StartSample(t.Context(), o, b, c.ids, c.how); !errors.As(err, &refused) || refused.Setting != SettingSample || !strings.Contains(refused.Old, "two (2 tensors, names ") {
			t.Errorf("%v: %v", c, err)
		}
	}
	// A run over all is no going on with a sample, nor the other way round.
	if _, err := Start(t.Context(), o); !errors.As(err, &refused) || refused.Setting != SettingSample {
		t.Error(err)
	}
	o.Session = base
	if _, err := StartSample(t.Context(), o, b, []int{3, 4}, "two"); !errors.As(err, &refused) || refused.Setting != SettingSample {
		t.Error(err)
	}
}

func TestSampleRefuses(t *testing.T) {
	dir := t.TempDir()
	shape := demo.Synth{Layers: 1, Experts: 2, Hidden: 64, Intermediate: 64}
	checkpoints := map[string]string{}
	for name, seed := range map[string]uint64{"a": 1, "b": 2} { // of one shape, so of one identity
		shape.Seed = seed
		checkpoints[name] = filepath.Join(dir, name)
		if err := shape.Write(t.Context(), checkpoints[name], nil); err != nil {
			t.Fatal(err)
		}
	}
	base := filepath.Join(dir, "base.qscope")
	feed, err := Start(t.Context(), Options{Checkpoint: checkpoints["a"], Session: base, Variants: []string{"nvfp4"}})
	ran(t, feed, err)
	b := openBase(t, base)
	o := Options{Session: filepath.Join(dir, "some.qscope"), Variants: []string{"mxfp4"}}
	var sample *SampleError
	for _, c := range []struct {
		name, checkpoint, says string
		change                 func(b *Base)
	}{
		{"another checkpoint", "demo", "it is of another checkpoint (identity", nil},
		{"the same headers, other weights", checkpoints["b"], "have the digest", nil},
		{"other arithmetic", checkpoints["a"], "numerics was 0 and is now 1", func(b *Base) { b.settings = with(b.settings, SettingNumerics, "0") }},
		{"another definition", checkpoints["a"], "its variant nvfp4 is nvfp4 (9 bits/weight", func(b *Base) {
			b.st = b.st.Clone()
			b.st.Variants[0].BitsPerWeight = 9
		}},
		{"another shape", checkpoints["a"], "its tensor was", func(b *Base) {
			b.st = b.st.Clone()
			b.st.Tensors = slices.Clone(b.st.Tensors)
			b.st.Tensors[1].Rows = 5
		}},
		{"no such tensor", checkpoints["a"], "is not among the targets", func(b *Base) {
			b.st = b.st.Clone()
			b.st.Tensors = slices.Clone(b.st.Tensors)
			b.st.Tensors[1].Name = "gone"
		}},
	} {
		o, changed := o, *b
		o.Checkpoint = c.checkpoint
		if c.change != nil {
			c.change(&changed)
			o.Variants = []string{"nvfp4", "mxfp4"}
		}
		_, err := StartSample(t.Context(), o, &changed, []int{1, 2}, "two")
		if !errors.As(err, &sample) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		oneLineOf(t, err, base, c.says)
	}
	o.Checkpoint = checkpoints["a"]
	for name, ids := range map[string][]int{"none": nil, "one that is not there": {1, 99}, "a negative one": {-1}} {
		if _, err := StartSample(t.Context(), o, b, ids, "some"); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	o.Targets = "*"
	if _, err := StartSample(t.Context(), o, b, []int{1}, "some"); err == nil {
		t.Error("targets of its own")
	}
	o.Targets, o.Variants = "", []string{"nvfp5"}
	if _, err := StartSample(t.Context(), o, b, []int{1}, "some"); err == nil || !strings.Contains(err.Error(), "nvfp5") {
		t.Error(err)
	}
}

func with(m map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

func TestOpenBaseRefuses(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(3)
	src.read = func(int) error { return errors.New("a bad block") }
	runJob(t, job, path, "f1")
	var sample *SampleError
	if _, err := OpenBase(t.Context(), path); !errors.As(err, &sample) {
		t.Errorf("without a record: %v", err)
	}
	src.read = nil
	runJob(t, job, path, "f1")
	openBase(t, path)
	execSQL(t, path, "delete from events where kind = 'tap'")
	var damaged *FileError
	if _, err := OpenBase(t.Context(), path); !errors.As(err, &damaged) {
		t.Errorf("a damaged one: %v", err)
	}
	if _, err := OpenBase(t.Context(), path+".gone"); !errors.As(err, &damaged) {
		t.Errorf("none: %v", err)
	}
}

// TestSampleNoticesOtherWeights: a tensor that is not among those compared first is compared when it is
// read.
func TestSampleNoticesOtherWeights(t *testing.T) {
	path := sessionPath(t)
	feed, err := Start(t.Context(), Options{Checkpoint: "demo", Session: path, Variants: []string{"nvfp4"}})
	ran(t, feed, err)
	b := openBase(t, path)
	var ids []int
	for id := range 40 {
		ids = append(ids, id)
	}
	b.st.Records[0][1].Weights ^= 1 // spread takes 0, 2, 5 …
	feed, err = StartSample(t.Context(), Options{Checkpoint: "demo", Session: sessionPath(t), Variants: []string{"mxfp4"}}, b, ids, "forty")
	if err != nil {
		t.Fatal(err)
	}
	_, err = feed.Wait(t.Context())
	oneLineOf(t, errors.Join(err, feed.Close()), b.st.Tensors[1].Name, "its weights changed since they were measured")
}

package sessions

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"quantscope/analysis/landscape"
)

// TestRecipeIsOneVariant: each tensor has the record of its group's variant, what is
// kept has none and is no measurement, and live, saved, replayed and joined states say
// the same of the recipe.
func TestRecipeIsOneVariant(t *testing.T) {
	const n = 20
	job, _ := fakeJob(n)
	q := followed(job)
	path := sessionPath(t)
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1", "f2", "recipe:mix"}, Program: "test", Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	live := l.Snapshot()
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for live.Progress.State != RunFinished {
		b, err := l.Next(t.Context(), time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		live.Apply(b)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	saved := openState(t, path)
	kept := n / 3
	if p := saved.Progress; p.Total != int64(3*n-kept) || p.Done != p.Total || live.Progress.Total != p.Total {
		t.Errorf("%+v, live %+v: want %d measurements", p, live.Progress, 3*n-kept)
	}
	for i := range saved.Tensors {
		mixed, g := saved.Records[2][i], q.recipe.Of[i]
		if g < 0 {
			if mixed.Seq != 0 {
				t.Errorf("tensor %d is kept and has a record", i)
			}
			if _, ok := saved.How(2, i); ok {
				t.Errorf("tensor %d is kept and quantized", i)
			}
			continue
		}
		want := saved.Records[g][i]
		want.Variant = 2
		if !mixed.sameFigures(&want) {
			t.Errorf("tensor %d: %+v, under %s %+v", i, mixed, q.recipe.Schemes[g], want)
		}
		if how, ok := saved.How(2, i); !ok || how.Name != q.recipe.Schemes[g] || how.ID != 2 {
			t.Errorf("tensor %d is quantized as %+v, %v", i, how, ok)
		}
	}
	if diff := cmp.Diff([]*RecipeRun{q.recipe.as(2)}, saved.Recipes, sameFigures); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	diffStates(t, live, saved)
	if i := slices.IndexFunc(saved.Log, func(e Event) bool { return e.Kind == EventFinding && e.Variant == 2 }); i < 0 || !strings.Contains(saved.Log[i].Message, "look at it") {
		t.Error("a warning of the plan is no finding")
	}
	s := Summarize(saved, 2)
	if s.Kept != int64(kept) || s.Pending != 0 || s.Tensors != int64(n-kept) {
		t.Errorf("%+v", s)
	}

	// Replay, to the end, back to before the recipe, and to the end again.
	r, err := OpenReplay(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	played := r.Snapshot()
	for _, to := range []int64{1 << 60, 0, 1 << 60} {
		r.Pause()
		if r.SeekTo(to); to == 0 {
			r.Step(-1 << 30)
			r.Step(1)
		}
		b, err := r.Next(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if played.Apply(b); to == 0 && len(played.Recipes) != 0 {
			t.Error("the recipe is there before its variant")
		}
	}
	diffStates(t, saved, played)

	// Joined: the other session has fewer tensors in another order of variants.
	other, _ := fakeJob(10)
	followed(other)
	second := sessionPath(t)
	runJob(t, other, second, "recipe:mix", "f1")
	both, err := Join(saved, openState(t, second), "b")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"recipe:mix", "recipe:mix @ b"} {
		v := both.VariantByName(name)
		if r := both.RecipeOf(v); r == nil || len(r.Of) != 10 || !slices.Equal(r.Of, q.recipe.Of[:10]) {
			t.Fatalf("%s: %+v", name, r)
		}
	}
	if p := both.Progress; p.Done != p.Total || p.Total != 5*10-2*3 {
		t.Errorf("joined: %+v", p)
	}
	feed, err := OpenJoined(path, second, "b")
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	diffStates(t, both, feed.Snapshot())

	// What a tensor takes and loses under the recipe is what its group says.
	table := saved.Table()
	if a := table.Arms[2]; a.Samples[2] != (landscape.Sample{State: landscape.Measured, Cos: 1}) || a.Bytes[2] != table.Items[2].SourceBytes {
		t.Errorf("what is kept: %+v, %d bytes", a.Samples[2], a.Bytes[2])
	}
	info, err := Inspect(path)
	if err != nil || info.Progress.Total != saved.Progress.Total {
		t.Errorf("%+v, %v", info.Progress, err)
	}
}

// TestRecipeIsExported: JSONL, CSV and Parquet have the group of each tensor.
func TestRecipeIsExported(t *testing.T) {
	job, _ := fakeJob(6)
	followed(job)
	path := sessionPath(t)
	runJob(t, job, path, "f1", "recipe:mix")
	var got []string
	for _, format := range []string{"jsonl", "csv", "parquet"} {
		if err := ExportFile(t.Context(), path, path+"."+format, format, false); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, _, err := ReadJSONL(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		var row struct {
			Variant  string `json:"variant"`
			StoredAs string `json:"stored_as"`
		}
		if err := json.Unmarshal(l, &row); err != nil {
			t.Fatal(err)
		}
		got = append(got, row.Variant+" "+row.StoredAs)
	}
	want := append(slices.Repeat([]string{"f1 "}, 6), "recipe:mix f1", "recipe:mix f2", "recipe:mix f1", "recipe:mix f2")
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	rows, err := parquet.ReadFile[parquetRow](path + ".parquet")
	if err != nil || len(rows) != len(want) {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for i, r := range rows {
		as := ""
		if r.StoredAs != nil {
			as = *r.StoredAs
		}
		if r.Variant+" "+as != want[i] {
			t.Errorf("row %d: %s %q", i, r.Variant, as)
		}
	}
	text, err := os.ReadFile(path + ".csv")
	if rows := strings.Split(string(text), "\n"); err != nil || !strings.HasSuffix(rows[0], ",stored_as,effective,why,failed") || !strings.HasSuffix(rows[8], ",f2,,,") {
		t.Errorf("%v: %s\n%s", err, rows[0], rows[8])
	}
}

// TestRecipeMayNotChange: a session is gone on with by the recipe that it follows,
// and by that alone.
func TestRecipeMayNotChange(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(9)
	followed(job)
	runJob(t, job, path, "recipe:mix")
	before := openState(t, path)

	same, src := fakeJob(9)
	followed(same)
	runJob(t, same, path, "recipe:mix")
	if src.reads[2]+src.reads[5]+src.reads[8] != 0 {
		t.Errorf("what is kept is read: %v", src.reads)
	}
	diffStates(t, before, openState(t, path))

	for name, c := range map[string]struct {
		change func(q *Quantizer)
		want   []string
	}{
		"text":  {func(q *Quantizer) { q.recipe.SHA256 = sumOf("another") }, []string{"recipe mix", before.Recipes[0].SHA256, sumOf("another")}},
		"group": {func(q *Quantizer) { q.recipe.Groups[1].Convention = "ct" }, []string{"group 2 of recipe mix", "modelopt", "ct"}},
		"place": {func(q *Quantizer) { q.recipe.Of[3] = 1 }, []string{"experts.3.up_proj", "recipe mix"}},
	} {
		t.Run(name, func(t *testing.T) {
			job, _ := fakeJob(9)
			c.change(followed(job))
			l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"recipe:mix"}, Threads: 2})
			var settings *SettingsError
			if !errors.As(err, &settings) {
				t.Fatalf("%v, %v", l, err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not name %s", err, w)
				}
			}
		})
	}
}

// TestPartsOfARecipeMerge: the merged session is that of a run over the whole.
func TestPartsOfARecipeMerge(t *testing.T) {
	whole := sessionPath(t)
	job, _ := fakeJob(12)
	followed(job)
	runJob(t, job, whole, "recipe:mix", "f1")
	var paths []string
	for k, cut := range [][2]int{{0, 5}, {5, 12}} {
		job, src := fakeJob(12)
		q := followed(job)
		job.Tensors = slices.Clone(src.tensors[cut[0]:cut[1]])
		for i := range job.Tensors {
			job.Tensors[i].ID = i
		}
		job.Source = &shifted{src, cut[0]}
		q.recipe.Of = q.recipe.Of[cut[0]:cut[1]]
		job.part = &partJSON{K: k + 1, Of: 2, First: cut[0], Whole: 12}
		job.Settings[SettingPart] = Part{k + 1, 2}.String()
		path := sessionPath(t)
		runJob(t, job, path, "recipe:mix", "f1")
		paths = append(paths, path)
	}
	merged := filepath.Join(t.TempDir(), "merged.qscope")
	if err := Merge(t.Context(), merged, paths, MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	a, b := openState(t, whole), openState(t, merged)
	if diff := cmp.Diff(a.Recipes, b.Recipes, sameFigures); diff != "" {
		t.Errorf("(-whole +merged):\n%s", diff)
	}
	if b.Progress.Done != b.Progress.Total || b.Progress.Total != a.Progress.Total {
		t.Errorf("%+v, whole %+v", b.Progress, a.Progress)
	}
	x, err := Digest(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	if y, err := Digest(t.Context(), merged); err != nil || x != y {
		t.Errorf("digest %s, whole %s: %v", y, x, err)
	}
	dump := dumpTables(t, merged)
	execSQL(t, merged, "delete from recipes")
	runJob(t, func() *Job { job, _ := fakeJob(12); followed(job); return job }(), merged, "recipe:mix", "f1")
	if again := dumpTables(t, merged); again != dump {
		t.Error("a writer does not bring the tables of recipes in step with the events")
	}

	// A part of another recipe.
	other, src := fakeJob(12)
	q := followed(other)
	q.recipe.Text += "# \n"
	q.recipe.SHA256 = sumOf(q.recipe.Text)
	other.Tensors = slices.Clone(src.tensors[5:])
	for i := range other.Tensors {
		other.Tensors[i].ID = i
	}
	other.Source, q.recipe.Of = &shifted{src, 5}, q.recipe.Of[5:]
	other.part, other.Settings[SettingPart] = &partJSON{K: 2, Of: 2, First: 5, Whole: 12}, "2/2"
	path := sessionPath(t)
	runJob(t, other, path, "recipe:mix", "f1")
	var no *MergeError
	err = Merge(t.Context(), merged+"2", []string{paths[0], path}, MergeOptions{})
	if !errors.As(err, &no) || !strings.Contains(err.Error(), "recipe mix is sha256 ") {
		t.Errorf("a part of another recipe: %v", err)
	}
}

// TestRunsOfTensors: lists of groups come back, and what is none is refused.
func TestRunsOfTensors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.IntRange(-1, 3)).Draw(t, "list")
		got, err := expandRuns(runLengths(list), 4)
		if err != nil || !slices.Equal(got, list) {
			t.Fatalf("%v: %v, %v", list, got, err)
		}
	})
	for _, bad := range [][]int{{0}, {4, 1}, {-2, 1}, {0, 0}, {0, -1}, {0, maxTensors, 0, 1}, {0, maxTensors + 1}} {
		if got, err := expandRuns(bad, 4); !errors.Is(err, errPlan) {
			t.Errorf("%v: %d, %v", bad, len(got), err)
		}
	}
}

// TestDamagedPlanIsLeftOut: a plan event over other tensors than the session's, or
// whose text is not that of its sum, is damage and not a recipe.
func TestDamagedPlanIsLeftOut(t *testing.T) {
	job, _ := fakeJob(6)
	q := followed(job)
	ok, err := newPlanEvent(0, q.recipe)
	if err != nil {
		t.Fatal(err)
	}
	if err := decodeEvent(&ok); err != nil || !ok.valid(1, 6) || ok.valid(1, 7) || ok.valid(0, 6) {
		t.Errorf("%v", err)
	}
	for _, change := range [][2]string{{q.recipe.SHA256, sumOf("")}, {`"groups":[`, `"groups_":[`}, {`"of":[0,1`, `"of":[9,1`}, {`"plan":{`, `"plan":[{`}, {`"plan"`, `"plam"`}} {
		e := stored{Event: Event{Kind: EventPlan, Variant: 0, Tensor: -1}, payload: []byte(strings.Replace(string(ok.payload), change[0], change[1], 1))}
		if err := decodeEvent(&e); err == nil {
			t.Errorf("%s in place of %s is taken", change[1], change[0])
		}
	}
}

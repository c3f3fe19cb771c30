package sessions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"quantscope/quant/export"
	"quantscope/quant/method"
)

// handRecipe has two schemes, two methods of one of them over matrices that servers
// fuse, and leaves the rest.
const handRecipe = `name: hand
groups:
  - scheme: int4-g128
    methods: [range]
    targets: ["re:model\\.layers\\.[0-9]+\\.self_attn\\.[qkvo]_proj\\.weight"]
  - scheme: nvfp4
    targets: ["*.mlp.experts.*.gate_proj.weight"]
  - scheme: nvfp4
    methods: [mse]
    targets: ["*.mlp.experts.*.up_proj.weight", "*.mlp.experts.*.down_proj.weight"]
`

// recipeFile is a recipe as a file.
func recipeFile(t testing.TB, text string) RecipeSource {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := OpenRecipe(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ranTo runs options to their end and gives the tap payloads by variant and tensor.
func ranTo(t *testing.T, o Options) (map[[2]string][]byte, *State) {
	t.Helper()
	o.Session = sessionPath(t)
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	st := openState(t, o.Session)
	out := map[[2]string][]byte{}
	for k, p := range payloads(t, o.Session) {
		out[[2]string{st.Variants[k.variant].Name, st.Tensors[k.tensor].Name}] = p
	}
	return out, st
}

// TestRecipeIsItsSchemes: on the demo each tensor of a recipe has, byte for byte, the
// record of a run of its group's variant alone, with scales of each tensor's own and
// with shared ones; and so have the variants that are measured beside it.
func TestRecipeIsItsSchemes(t *testing.T) {
	for _, globals := range []string{"tensor", "shared"} {
		for name, src := range map[string]RecipeSource{"hand": recipeFile(t, handRecipe), "mixed-nvfp4-fp8": {Name: "mixed-nvfp4-fp8", Builtin: true}} {
			t.Run(globals+" "+name, func(t *testing.T) {
				got, st := ranTo(t, Options{Checkpoint: "demo", Recipes: []RecipeSource{src}, GlobalScale: globals})
				r := st.Recipes[0]
				if len(got) != len(st.Tensors) || len(st.Variants) != 1 || st.Variants[0].Scheme != SchemeMixed || st.Meta.Targets != "recipe:"+name {
					t.Fatalf("%d records of %d tensors, %+v, %s", len(got), len(st.Tensors), st.Variants, st.Meta.Targets)
				}
				var bytesOf, params int64
				alone := map[string]map[[2]string][]byte{}
				for i, x := range st.Tensors {
					how, _ := st.How(0, i)
					if alone[how.Name] == nil {
						alone[how.Name], _ = ranTo(t, Options{Checkpoint: "demo", Variants: []string{how.Name}, GlobalScale: globals}.over(st))
					}
					want := alone[how.Name][[2]string{how.Name, x.Name}]
					if len(want) == 0 || !bytes.Equal(got[[2]string{"recipe:" + name, x.Name}], want) {
						t.Fatalf("%s is not what %s makes of it", x.Name, how.Name)
					}
					v, err := method.Parse(how.Name)
					if err != nil {
						t.Fatal(err)
					}
					bytesOf += v.Bytes(x.Rows, x.Cols)
					params += int64(x.Rows * x.Cols)
				}
				if got, want := st.Variants[0].BitsPerWeight, 8*float64(bytesOf)/float64(params); got != want {
					t.Errorf("%v bits per weight, the groups' are %v", got, want)
				}
				if r.SHA256 != sumOf(r.Text) || len(alone) != len(st.Kinds(0)) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// over asks for the tensors of a session.
func (o Options) over(st *State) Options {
	var names []string
	for i := range st.Tensors {
		names = append(names, st.Tensors[i].Name)
	}
	o.Targets = strings.Join(names, ",")
	return o
}

// TestRecipeBesideVariants: --targets may name more than a recipe stores, which then
// has no record of the rest; a recipe that stores others is refused by name.
func TestRecipeBesideVariants(t *testing.T) {
	src := recipeFile(t, "name: part\ngroups:\n  - {scheme: nvfp4, targets: [\"*.layers.1.mlp.experts.*.gate_proj.weight\"]}\nignore: [\"*.experts.*.up_proj.weight\", \"*.experts.*.down_proj.weight\", \"*.layers.[2-5].mlp.experts.*\"]\n")
	o := Options{Checkpoint: "demo", Recipes: []RecipeSource{src}, Variants: []string{"nvfp4"}, Targets: "*.layers.1.mlp.experts.*"}
	got, st := ranTo(t, o)
	v := st.VariantByName("recipe:part")
	if len(st.Tensors) != 48 || st.Recipes[0].Kept() != 32 || len(got) != 48+16 || st.Progress.Total != 64 || st.Progress.Done != 64 {
		t.Fatalf("%d tensors, %d kept, %d records, %+v", len(st.Tensors), st.Recipes[0].Kept(), len(got), st.Progress)
	}
	if s := Summarize(st, v); s.Kept != 32 || s.Tensors != 16 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
	shares := st.EffectiveShares(v)
	if len(shares) != 2 || shares[0].Effective != SourceArm || shares[0].Tensors != 32 || shares[1].Effective != "nvfp4" {
		t.Errorf("%+v", shares)
	}
	o.Targets = "*.layers.1.mlp.experts.*.up_proj.weight"
	var refused *RecipeError
	if _, err := Start(t.Context(), o); !errors.As(err, &refused) || !strings.Contains(err.Error(), "gate_proj") || !strings.Contains(err.Error(), "part") {
		t.Errorf("%v", err)
	}
}

// TestRecipesAreRefused: before anything is read, and by name.
func TestRecipesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"overlap":    {"name: x\ngroups:\n  - {scheme: nvfp4, targets: [\"*experts*\"]}\n  - {scheme: fp8, targets: [\"*experts.1.*\"]}\n", []string{"x", "experts.1."}},
		"no match":   {"name: x\ngroups:\n  - {scheme: nvfp4, targets: [\"*nothing*\"]}\n", []string{"x", "*nothing*"}},
		"calibrated": {"name: x\ngroups:\n  - {scheme: int4-g128, methods: [gptq], targets: [\"*.mlp.experts.*\"]}\n", []string{"x", "group 1", "int4-g128+gptq", "calibrated"}},
	} {
		t.Run(name, func(t *testing.T) {
			session := sessionPath(t)
			var refused *RecipeError
			_, err := Start(t.Context(), Options{Checkpoint: "demo", Session: session, Recipes: []RecipeSource{recipeFile(t, c.text)}})
			if !errors.As(err, &refused) {
				t.Fatalf("%v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not name %q", err, w)
				}
			}
			if _, err := os.Stat(session); err == nil {
				t.Error("a session is there")
			}
		})
	}
	if _, err := OpenRecipe("none-such"); !errors.Is(err, ErrRecipe) || !strings.Contains(err.Error(), "moe-nvfp4") {
		t.Errorf("%v", err)
	}
	if _, err := OpenRecipe(t.TempDir()); !errors.Is(err, ErrRecipe) {
		t.Errorf("a folder: %v", err)
	}
}

// TestRecipeExportDoesNotDependOnHow: whole, in pieces, interrupted and resumed, or in
// parts that are merged, the folder has the same bytes and the session the same
// records. What goes on needs no recipe, and takes no other text.
func TestRecipeExportDoesNotDependOnHow(t *testing.T) {
	source := synthetic(t)
	src := recipeFile(t, `name: synth
groups:
  - {scheme: fp8-channel, targets: ["*.self_attn.*_proj.weight"]}
  - {scheme: nvfp4, methods: [mse], targets: ["*.mlp.experts.*"]}
`)
	options := func(base string) Options {
		return Options{
			Checkpoint: source, Session: filepath.Join(base, "s.qscope"), Recipes: []RecipeSource{src}, Threads: 2,
			Export: &ExportOptions{Dir: filepath.Join(base, "out"), Layout: export.CompressedTensors},
		}
	}
	o := options(t.TempDir())
	x, err := runExport(t, t.Context(), o, nil)
	if err != nil || x.State != ExportWhole {
		t.Fatalf("%+v, %v", x, err)
	}
	want := folderBytes(t, o.Export.Dir)
	digest, err := Digest(t.Context(), o.Session)
	if err != nil {
		t.Fatal(err)
	}
	same := func(t *testing.T, o Options, session string) {
		t.Helper()
		sameFolders(t, want, folderBytes(t, o.Export.Dir))
		if got, err := Digest(t.Context(), session); err != nil || got != digest {
			t.Errorf("records %s, want %s: %v", got, digest, err)
		}
	}
	t.Run("in pieces", func(t *testing.T) {
		o := options(t.TempDir())
		o.MemBytes, o.Threads = 1000, 1
		if _, err := runExport(t, t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
		same(t, o, o.Session)
	})
	t.Run("resumed", func(t *testing.T) {
		o := options(t.TempDir())
		o.Threads = 1
		interrupted := 0
		for n := 1; ; n += 3 {
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
			if x.State == ExportIncomplete {
				interrupted++
				o.Export.Resume = true
				other := o
				other.Recipes = []RecipeSource{recipeFile(t, strings.Replace(src.Text, "nvfp4, methods: [mse]", "nvfp4", 1))}
				var settings *SettingsError
				if _, err := Start(t.Context(), other); !errors.As(err, &settings) || settings.Old == settings.New || !strings.Contains(err.Error(), "recipe synth") {
					t.Fatalf("another text: %v", err)
				}
			}
		}
		if interrupted == 0 {
			t.Error("it was never interrupted")
		}
		same(t, o, o.Session)
		again, err := Start(t.Context(), Options{Checkpoint: source, Session: o.Session, GlobalScale: "shared", Compat: ""})
		var settings *SettingsError
		if errors.As(err, &settings) { // the layout's conventions are asked for with the layout
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("parts", func(t *testing.T) {
		base := t.TempDir()
		var paths []string
		for k := 1; k <= 2; k++ {
			o := options(base)
			o.Session = filepath.Join(base, fmt.Sprintf("%d.qscope", k))
			o.Part = Part{k, 2}
			x, err := runExport(t, t.Context(), o, nil)
			if err != nil || k == 1 && x.State != ExportPart || k == 2 && x.State != ExportWhole {
				t.Fatalf("part %d: %+v, %v", k, x, err)
			}
			paths = append(paths, o.Session)
		}
		merged := filepath.Join(base, "merged.qscope")
		if err := Merge(t.Context(), merged, paths, MergeOptions{}); err != nil {
			t.Fatal(err)
		}
		same(t, options(base), merged)
		st := openState(t, merged)
		if len(st.Recipes) != 1 || len(st.Recipes[0].Of) != len(st.Tensors) {
			t.Fatalf("%+v", st.Recipes)
		}
	})
}

// TestStoredRecipeIsGoneOnWith: a session is gone on with by its own text, rows are
// measured again by the group of the tensor, and a sample of it takes the recipe.
func TestStoredRecipeIsGoneOnWith(t *testing.T) {
	path := sessionPath(t)
	o := Options{Checkpoint: "demo", Session: path, Recipes: []RecipeSource{recipeFile(t, handRecipe)}}
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	before := openState(t, path)
	l, err = Start(t.Context(), Options{Checkpoint: "demo", Session: path, Variants: []string{"nvfp4"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	after := openState(t, path)
	if len(after.Variants) != 2 || after.Progress.Done != 2*before.Progress.Done || len(after.Recipes) != 1 {
		t.Fatalf("%+v, %+v", after.Variants, after.Progress)
	}
	feed, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	gate := -1
	for i := range after.Tensors {
		if how, _ := after.How(0, i); how.Name == "nvfp4" {
			gate = i
			break
		}
	}
	a, err := feed.RowErrors(t.Context(), 0, gate)
	if err != nil {
		t.Fatal(err)
	}
	b, err := feed.RowErrors(t.Context(), 1, gate)
	if err != nil || fmt.Sprint(a) != fmt.Sprint(b) || len(a) != after.Tensors[gate].Rows {
		t.Errorf("%d rows, %d under nvfp4: %v", len(a), len(b), err)
	}

	base, err := OpenBase(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	sampled := sessionPath(t)
	l, err = StartSample(t.Context(), Options{Checkpoint: "demo", Session: sampled, Variants: []string{"recipe:hand", "nvfp4+sweep"}}, base, []int{1, gate, 50, 200}, "some")
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	st := openState(t, sampled)
	for i, x := range st.Tensors {
		at := before.tensorByName(x.Name)
		r := st.Records[0][i]
		r.Tensor = at
		if !r.sameFigures(&before.Records[0][at]) {
			t.Errorf("%s: another record in the sample", x.Name)
		}
	}
}

func (s *State) tensorByName(name string) int {
	for i := range s.Tensors {
		if s.Tensors[i].Name == name {
			return i
		}
	}
	return -1
}

// TestKilledRecipe kills the writing process three times: what it recorded is that of
// a run that was not disturbed, nothing is there twice, and what is kept is not missed.
func TestKilledRecipe(t *testing.T) {
	undisturbed := sessionPath(t)
	runJob(t, childJob(), undisturbed, strings.Split(childVariants, ",")...)
	of := payloads(t, undisturbed)
	want := map[pair][]byte{}
	for i := range childTensors {
		if g := i % 3; g < 2 {
			want[pair{0, i}] = of[pair{g, i}]
		}
	}
	path := sessionPath(t)
	for i := range 3 {
		p := startChild(t, fmt.Sprintf("recipehold %d %s", childTensors*(i+1)/4, path))
		if !p.until(len(want) * (2*i + 1) / 8) {
			t.Fatalf("kill %d: the child ended", i)
		}
		if err := p.kill(); err == nil {
			t.Fatalf("kill %d: it was not killed", i)
		}
	}
	out, err := startChild(t, "recipe "+path).output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := payloads(t, path); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("%d records, an undisturbed run has %d, or others", len(got), len(want))
	}
	if st := openState(t, path); st.Progress.State != RunFinished || st.Progress.Done != int64(len(want)) || st.Progress.Total != st.Progress.Done {
		t.Errorf("%+v", st.Progress)
	}
}

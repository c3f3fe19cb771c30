package census

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// fix mends a checkpoint into a new folder; master is a path, or "".
func fix(t testing.TB, dir, master string, o Options) (out string, rep *Report, f *Fixed) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "fixed")
	rep, f, err := tryFix(t, dir, master, out, o)
	if err != nil {
		t.Fatal(err)
	}
	return out, rep, f
}

func tryFix(t testing.TB, dir, master, out string, o Options) (*Report, *Fixed, error) {
	t.Helper()
	ck, model := open(t, dir)
	rep, err := Run(t.Context(), ck, model)
	if err != nil {
		t.Fatal(err)
	}
	var m *Master
	if master != "" {
		from, fm := open(t, master)
		m = NewMaster(from, fm)
	}
	return Fix(t.Context(), rep, ck, model, m, out, o)
}

// tensors are the bytes of every tensor.
func tensors(t testing.TB, dir string) map[string]string {
	t.Helper()
	ck, _ := open(t, dir)
	out := map[string]string{}
	for i := range ck.Tensors {
		raw := make([]byte, ck.Tensors[i].Size)
		if err := ck.ReadAt(t.Context(), &ck.Tensors[i], 0, raw); err != nil {
			t.Fatal(err)
		}
		out[ck.Tensors[i].Name] = string(raw)
	}
	return out
}

// changed lists the tensors whose bytes differ, and wants names, types, shapes
// and places to be the same.
func changed(t testing.TB, was, is string) []string {
	t.Helper()
	a, _ := open(t, was)
	b, _ := open(t, is)
	if a.Identity() != b.Identity() {
		t.Errorf("headers differ")
	}
	x, y := tensors(t, was), tensors(t, is)
	var out []string
	for name := range x {
		if x[name] != y[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// sideFiles are the bytes of everything but weights.
func sideFiles(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".safetensors") {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = string(raw)
		}
	}
	return out
}

// After a fix nothing differs, what is served is what is stored, nothing else
// has changed, and no way that was weighed would have lost less.
func TestFixOfDemo(t *testing.T) {
	for _, lay := range []string{layout.ModelOpt, layout.CompressedTensors} {
		dir := exportDemo(t, "nvfp4", lay, export.PerTensor)
		shared := tensors(t, exportDemo(t, "nvfp4", lay, export.Shared))
		for _, master := range []string{demo.Label, ""} {
			t.Run(lay+" against "+master, func(t *testing.T) {
				out, rep, f := fix(t, dir, master, Options{})
				after := census(t, out)
				if after.Pairs != 80 || after.Differing != 0 || len(after.Left) > 0 || after.Note != "" {
					t.Fatalf("%+v", after.Totals)
				}
				if f.Groups != 80 || f.Compensated+f.Requantized != 80 || (master == "") != (f.Requantized == 0) || f.Out != out {
					t.Errorf("%+v", f)
				}
				allowed, remade := map[string]bool{}, map[string]bool{}
				fixed, was, is := tensors(t, out), decodedAll(t, dir), decodedAll(t, out)
				var w2, stored, written float64
				for _, l := range rep.Layers {
					for _, g := range l.Groups {
						names := [2]string{g.Members[0].Name, g.Members[1].Name}
						for _, name := range names {
							w := masterOf(t, name)
							a, b := rel(w, was[name]), rel(w, is[name])
							n := 0.0
							for _, x := range w {
								n += float64(x) * float64(x)
							}
							w2, stored, written = w2+n, stored+a*a*n, written+b*b*n
							allowed[name] = true
						}
						c := g.Fix
						if master != "" {
							if (c.By == ByRequantization) != (*c.Requantized < c.Compensated) {
								t.Errorf("%s: %s, %v and %v", names[0], c.By, c.Compensated, *c.Requantized)
							}
						} else if c.By != ByCompensation || c.Requantized != nil || c.Stored != nil || c.Compensated > 0.03 {
							t.Errorf("%s: %+v", names[0], c)
						}
						remade[names[0]], remade[names[1]] = c.By == ByRequantization, c.By == ByRequantization
					}
				}
				for name, raw := range fixed {
					if module, _ := layout.Split(name); remade[module] && raw != shared[name] {
						t.Errorf("%s is not what an export with shared scales has", name)
					}
				}
				if d := math.Sqrt(written / w2); master != "" && (math.Abs(f.Written-d) > 1e-9 || math.Abs(f.Stored-math.Sqrt(stored/w2)) > 1e-9) {
					t.Errorf("%v as written, %v as stored; want %v and %v", f.Written, f.Stored, d, math.Sqrt(stored/w2))
				}
				if master != "" && (f.Written > *f.ByComp || f.Written > *f.ByRequant) {
					t.Errorf("%v, %v by compensation, %v by requantization", f.Written, *f.ByComp, *f.ByRequant)
				}
				for _, name := range changed(t, dir, out) {
					module, param := layout.Split(name)
					if !allowed[module] || master == "" && (param == "weight" || param == "weight_packed") {
						t.Errorf("%s has changed", name)
					}
				}
				checkSide(t, dir, out, f)
				checkVerify(t, out, rep, f)
			})
		}
	}
}

// What Prove weighed is not weighed again, and the same is chosen.
func TestFixAfterProof(t *testing.T) {
	dir := exportDemo(t, "nvfp4", layout.ModelOpt, export.PerTensor)
	ck, model := open(t, dir)
	from, fm := open(t, demo.Label)
	proven := prove(t, dir, Options{Fix: true})
	out := filepath.Join(t.TempDir(), "out")
	rep, f, err := Fix(t.Context(), proven, ck, model, NewMaster(from, fm), out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, plain, g := fix(t, dir, demo.Label, Options{})
	if rep.Proof == nil || len(changed(t, out, other)) > 0 || f.Requantized != g.Requantized || f.Written != g.Written || *f.ByComp != *g.ByComp {
		t.Errorf("%+v, without a proof before %+v", f, g)
	}
	if plain.Proof != nil {
		t.Error("a proof without one")
	}
}

// A group that the master lacks is listed once and mended by what is stored, the
// others by the master.
func TestFixWithPartOfAMaster(t *testing.T) {
	const a, b = "model.layers.0.mlp.", "model.layers.1.mlp."
	var shard, plain []stored
	for i, name := range []string{a + "gate_proj", a + "up_proj", b + "gate_proj", b + "up_proj"} {
		w := floats(16*64, uint64(i+1), 0.02*float64(i+1))
		shard = append(shard, packed(t, name, layout.ModelOpt, w, 16, 64, 0)...)
		if name != b+"up_proj" {
			plain = append(plain, bf16(t, name+".weight", w, 16, 64))
		}
	}
	dir, master := writeFiles(t, "", shard), writeFiles(t, "", plain)
	ck, model := open(t, dir)
	from, fm := open(t, master)
	m := NewMaster(from, fm)
	rep, err := Run(t.Context(), ck, model)
	if err == nil {
		rep, err = Prove(t.Context(), rep, ck, model, m, Options{Fix: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	rep, f, err := Fix(t.Context(), rep, ck, model, m, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Left) != 1 || rep.Left[0].Name != b+"up_proj" || census(t, out).Differing != 0 || rep.Proof.Members != 1 {
		t.Errorf("%+v, %+v", rep.Left, rep.Proof)
	}
	one, two := rep.Layers[0].Groups[0].Fix, rep.Layers[1].Groups[0].Fix
	if one.Against != "master" || one.Requantized == nil || two.Against != "stored" || two.By != ByCompensation || f.ByRequant != nil || !strings.Contains(f.Against, "stored where") {
		t.Errorf("%+v, %+v, %+v", one, two, f)
	}
}

// Members in different shards, and a member's fields in different shards, come
// out as they do from one file.
func TestFixAcrossShards(t *testing.T) {
	const m = "model.layers.0.mlp."
	gate, up := floats(16*64, 1, 0.02), floats(16*64, 2, 0.03)
	g := packed(t, m+"gate_proj", layout.CompressedTensors, gate, 16, 64, 0)
	u := packed(t, m+"up_proj", layout.CompressedTensors, up, 16, 64, 0)
	master := writeFiles(t, "", []stored{bf16(t, m+"gate_proj.weight", gate, 16, 64), bf16(t, m+"up_proj.weight", up, 16, 64)})
	one := writeFiles(t, "", slices.Concat(g, u))
	many := writeFiles(t, "", g[:1], append(slices.Clone(g[1:]), u[2]), u[:1], u[1:2])
	for _, against := range []string{"", master} {
		a, _, fa := fix(t, one, against, Options{})
		b, _, fb := fix(t, many, against, Options{})
		x, y := tensors(t, a), tensors(t, b)
		for name := range x {
			if x[name] != y[name] {
				t.Errorf("against %q: %s differs", against, name)
			}
		}
		if fa.Groups != 1 || fa.Written != fb.Written || census(t, b).Differing != 0 {
			t.Errorf("%+v and %+v", fa, fb)
		}
	}
}

// Matrices that are gone through in several pieces come out whole.
func TestFixInPieces(t *testing.T) {
	const m, rows, cols = "model.layers.0.mlp.", 600, 1024
	if chunkRows(cols) >= rows {
		t.Fatal("one piece")
	}
	gate, up := floats(rows*cols, 1, 0.02), floats(rows*cols, 2, 0.03)
	for _, lay := range []string{layout.ModelOpt, layout.CompressedTensors} {
		dir := writeFiles(t, "", slices.Concat(packed(t, m+"gate_proj", lay, gate, rows, cols, 0), packed(t, m+"up_proj", lay, up, rows, cols, 0)))
		master := writeFiles(t, "", []stored{bf16(t, m+"gate_proj.weight", gate, rows, cols), bf16(t, m+"up_proj.weight", up, rows, cols)})
		for _, against := range []string{master, ""} {
			before := decodedAll(t, dir)
			out, rep, f := fix(t, dir, against, Options{})
			after := decodedAll(t, out)
			w, q := slices.Concat(gate, up), slices.Concat(after[m+"gate_proj"], after[m+"up_proj"])
			if against == "" {
				w = slices.Concat(before[m+"gate_proj"], before[m+"up_proj"])
			}
			if d := rel(w, q); math.Abs(d-f.Written) > 1e-9 || census(t, out).Differing != 0 {
				t.Errorf("%s, %s: %v, want %v", lay, rep.Layers[0].Groups[0].Fix.By, d, f.Written)
			}
			if by := rep.Layers[0].Groups[0].Fix.By; (by == ByRequantization) != (against != "") {
				t.Errorf("%s: by %s", lay, by)
			}
		}
	}
}

// Three members are mended together, and what has the first's scale already
// stays where its scale is kept.
func TestFixOfAttention(t *testing.T) {
	const a = "model.layers.0.self_attn."
	var shard, plain []stored
	for i, c := range []struct {
		name  string
		scale float32
	}{{"q_proj", 1.0 / 1024}, {"k_proj", 1.0 / 1024}, {"v_proj", 1.0 / 700}} {
		w := floats(16*64, uint64(i), 0.2)
		shard = append(shard, packed(t, a+c.name, layout.ModelOpt, w, 16, 64, c.scale)...)
		plain = append(plain, bf16(t, a+c.name+".weight", w, 16, 64))
	}
	dir := writeFiles(t, "", shard)
	rep := census(t, dir)
	if rep.Differing != 1 || rep.Noun(1) != "group" || rep.Layers[0].Set != "q, k and v" {
		t.Fatalf("%+v", rep)
	}
	against := writeFiles(t, "", plain)
	ck, model := open(t, dir)
	from, fm := open(t, against)
	proven, err := Prove(t.Context(), rep, ck, model, NewMaster(from, fm), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := proven.Layers[0].Groups[0].Proof; len(p) != 1 || p[0].Member != a+"v_proj" || !strings.Contains(proven.Sentence(), "in 1 of 1 group;") {
		t.Errorf("%+v; %s", p, proven.Sentence())
	}
	for _, master := range []string{"", against} {
		out, rep, f := fix(t, dir, master, Options{})
		if census(t, out).Differing != 0 || f.Groups != 1 {
			t.Errorf("%+v", f)
		}
		if c := rep.Layers[0].Groups[0].Fix; c.By == ByCompensation {
			for _, name := range changed(t, dir, out) {
				if module, _ := layout.Split(name); module == c.Kept {
					t.Errorf("%s has changed, whose scale is kept", name)
				}
			}
		}
	}
}

// Experts that share one second-level scale among them can only take gate's: the
// choice of one is that of all.
func TestFixOfTiedScales(t *testing.T) {
	dir := stackedExperts(t, []float32{1e-4}, []float32{1.5e-4})
	if rep := census(t, dir); rep.Pairs != 3 || rep.Differing != 3 {
		t.Fatalf("%+v", rep)
	}
	out, rep, f := fix(t, dir, "", Options{})
	if after := census(t, out); after.Pairs != 3 || after.Differing != 0 || f.Compensated != 3 {
		t.Errorf("%+v, %+v", after, f)
	}
	for _, g := range rep.Layers[0].Groups {
		if g.Fix.Kept != g.Members[0].Name {
			t.Errorf("%+v", g.Fix)
		}
	}
	if got := changed(t, dir, out); !slices.Equal(got, []string{"model.layers.0.mlp.experts.up_proj.weight_scale", "model.layers.0.mlp.experts.up_proj.weight_scale_2"}) {
		t.Errorf("%q has changed", got)
	}
	// With a master too: a scale that others have cannot become another.
	var plain []stored
	for _, x := range []struct {
		proj string
		seed uint64
	}{{"gate_proj", 1}, {"up_proj", 10}} {
		var w []float32
		for e := range uint64(3) {
			w = append(w, floats(16*32, x.seed+e, 0.02)...)
		}
		plain = append(plain, bf16(t, "model.layers.0.mlp.experts."+x.proj, w, 3, 16, 32))
	}
	master := writeFiles(t, `{"model_type": "qwen3_moe", "hidden_size": 32, "num_hidden_layers": 1, "num_experts": 3, "moe_intermediate_size": 16, "num_experts_per_tok": 1}`, plain)
	out, rep, f = fix(t, dir, master, Options{})
	if census(t, out).Differing != 0 || f.Compensated != 3 || f.ByRequant != nil || f.Against != "master" || len(rep.Left) > 0 {
		t.Errorf("%+v, %+v", f, rep.Left)
	}
	// Each with its own: only those of the pair that differs change.
	dir = stackedExperts(t, []float32{1e-4, 2e-4, 3e-4}, []float32{1e-4, 2.6e-4, 3e-4})
	out, rep, _ = fix(t, dir, "", Options{})
	kept := rep.Layers[0].Groups[1].Fix.Kept
	for _, e := range []int{0, 1, 2} {
		for _, proj := range []string{"gate_proj", "up_proj"} {
			name := "model.layers.0.mlp.experts." + proj + "[" + string(rune('0'+e)) + "]"
			same := slices.Equal(decoded(t, dir, name), decoded(t, out, name))
			if same != (e != 1 || name == kept) {
				t.Errorf("%s is the same: %t", name, same)
			}
		}
	}
}

// A checkpoint in which nothing differs is copied as it stands.
func TestFixOfACleanOne(t *testing.T) {
	dir := exportDemo(t, "nvfp4", layout.ModelOpt, export.Shared)
	out, _, f := fix(t, dir, demo.Label, Options{})
	if got := changed(t, dir, out); len(got) > 0 || f.Groups != 0 || !strings.Contains(strings.Join(f.Notes, ""), "nothing differs") {
		t.Errorf("%q has changed; %+v", got, f)
	}
	a, b := sideFiles(t, dir), sideFiles(t, out)
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s differs", name)
		}
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
}

package candidate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// chosen are codes that a test makes: those of a plain variant, written down as a
// calibrated one's.
type chosen struct {
	variant string // that the folder says
	plain   string // whose codes they are
	targets string // as in specs
	globals string // shared where empty
	chunks  [][]int32
	change  func(*codes.Manifest)       // of the manifest, before the folder is made; may be nil
	each    func(*codes.Matrix)         // of a matrix; may be nil
	leave   func(name string) (no bool) // matrices whose unit is not written; may be nil
}

// folder makes it. Matrices have a unit for each layer.
func (k chosen) folder(t testing.TB, ref *Candidate) string {
	t.Helper()
	v, err := method.Parse(k.plain)
	if err != nil {
		t.Fatal(err)
	}
	matrices, _, err := SelectTargets(ref, k.targets)
	if err != nil {
		t.Fatal(err)
	}
	globals := export.Shared
	if k.globals == "tensor" {
		globals = export.PerTensor
	}
	var choices []choice
	for _, m := range matrices {
		choices = append(choices, choice{m: m, v: v})
	}
	made := newMade(choices, globals, new(budget), Options{Set: kernels.Best(), Mem: -1})
	m := codes.Manifest{
		Source: ref.Identity, Variant: k.variant, Convention: v.Spec.Convention.String(), GlobalScale: globals.String(), Targets: k.targets, Damp: 0.01, Inputs: "sequential", Numerics: "1",
		Corpus: codes.Corpus{Name: "calib", Source: "demo", Tokenizer: ref.TokenizerID, Chunks: len(k.chunks), SHA256: sumOfIDs(k.chunks)},
	}
	if m.Targets == "" {
		m.Targets = "default: routed experts"
	}
	units := map[string][]codes.Matrix{}
	raw := source(t, ref)
	for _, x := range matrices {
		c, err := made.code(t.Context(), raw, made.jobs[placeOf(x.Role)], func(n int) []byte { return make([]byte, n) })
		if err != nil {
			t.Fatal(err)
		}
		unit := x.Role.LayerName()
		if !slices.Contains(m.Units, unit) {
			m.Units = append(m.Units, unit)
		}
		m.Matrices = append(m.Matrices, x.Name)
		one := codes.Matrix{Name: x.Name, Rows: x.Rows, Cols: x.Cols, Codes: c.codes, Scales: c.scales, Mins: c.mins, Global: c.global, Effective: k.variant}
		if k.each != nil {
			k.each(&one)
		}
		units[unit] = append(units[unit], one)
	}
	for _, c := range k.chunks {
		m.Corpus.Tokens += int64(len(c))
	}
	if k.change != nil {
		k.change(&m)
	}
	dir := filepath.Join(t.TempDir(), "codes")
	s, err := codes.Create(dir, m, k.chunks)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range m.Units {
		if k.leave != nil && k.leave(u) {
			continue
		}
		if err := s.Put(u, units[u], nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sumOfIDs is the SHA-256 of ids as little-endian int32.
func sumOfIDs(chunks [][]int32) string {
	h := sha256.New()
	for _, c := range chunks {
		for _, id := range c {
			_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

var someText = [][]int32{{1, 2, 3, 4}, {5, 6, 7}}

// A folder of codes presents what its codes decode to, bit for bit as the variant
// that made them presents it, and the reference's weights everywhere else.
func TestCodes(t *testing.T) {
	ref := open(t, "demo")
	for _, c := range []struct{ variant, plain, targets, globals, baseline string }{
		{"int4-g128+gptq", "int4-g128+range", "", "", "int4-g128"},
		{"int4-g128+range+gptq", "int4-g128", "linear", "", "int4-g128+range@linear"},
		{"nvfp4+mse_ge1+gptq", "nvfp4+sweep", "*layers.[2-4]*", "", "nvfp4+mse_ge1@*layers.[2-4]*"},
		{"nvfp4+imatrix", "nvfp4+sweep", "all", "tensor", "nvfp4@all, a global scale for each matrix"},
		{"mxfp4+gptq", "mxfp4", "linear", "", "mxfp4@linear"},
	} {
		t.Run(c.variant+"@"+c.targets, func(t *testing.T) {
			dir := chosen{variant: c.variant, plain: c.plain, targets: c.targets, globals: c.globals, chunks: someText}.folder(t, ref)
			for _, mem := range []int64{0, -1} {
				o := Options{Set: kernels.Best(), Mem: mem}
				got := mustParse(t, ref, "calibrated="+dir, o)
				spec := c.plain
				if c.targets != "" {
					spec += "@" + c.targets
				}
				plain := mustParse(t, ref, spec, o)
				if c.globals == "" {
					compareMatrices(t, plain, got)
				}
				at := ""
				if c.targets != "" {
					at = "@" + c.targets
				}
				if got.Kind != Codes || got.Label != "calibrated" || got.Path != dir || got.Effective != c.variant+at || len(got.Fallbacks) != 0 ||
					got.Baseline != c.baseline || got.BitsPerWeight != plain.BitsPerWeight || got.Bytes != plain.Bytes {
					t.Errorf("%+v", got)
				}
				if want := "calib (demo): 7 tokens in 2 chunks, sha256 " + sumOfIDs(someText)[:12] + ", layer by layer, through what is quantized"; got.Calibrated != want {
					t.Errorf("calibrated on %q, want %q", got.Calibrated, want)
				}
				texts, err := got.CalibrationTexts()
				if err != nil || len(texts) != 1 || !slices.EqualFunc(texts[0].Chunks, someText, slices.Equal) || hex.EncodeToString(texts[0].SHA256[:]) != sumOfIDs(someText) {
					t.Errorf("text %+v, %v", texts, err)
				}
				base, err := BaselineOf(ref, got, o)
				if err != nil || base.Spec != c.baseline || !base.Added || base.Kind != Variant || base.BitsPerWeight != got.BitsPerWeight {
					t.Fatalf("%v, %+v", err, base)
				}
				if c.globals == "" {
					compareMatrices(t, mustParse(t, ref, c.baseline, o), base)
				}
				if err := got.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Second-level scales are as the folder has them, and its baseline's over the same
// matrices: each its own where the folder says so.
func TestCodesOfOwnGlobals(t *testing.T) {
	ref := open(t, "demo")
	dir := chosen{variant: "nvfp4+gptq", plain: "nvfp4", globals: "tensor"}.folder(t, ref)
	got := mustParse(t, ref, dir, Options{})
	base, err := BaselineOf(ref, got, Options{})
	if err != nil {
		t.Fatal(err)
	}
	compareMatrices(t, got, base)
	if same, err := Same(got, base); err != nil || same {
		t.Errorf("codes of a folder are known to be those of a variant: %v", err)
	}
	shared, own, differ := source(t, mustParse(t, ref, "nvfp4", Options{})), source(t, got), 0
	for p := range own.(*overlay).m.jobs {
		if !slices.Equal(values(t, shared, p), values(t, own, p)) {
			differ++
		}
	}
	if differ == 0 {
		t.Error("gate and up have one largest magnitude everywhere, so that this says nothing")
	}
}

// The export of a folder's codes has the same weights as the folder.
func TestCodesAreWhatExportWrites(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	dir := chosen{variant: "nvfp4+gptq", plain: "nvfp4+sweep", targets: "linear"}.folder(t, ref)
	store, err := codes.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	matrices, _, err := selectTargets(ref.Topology, "linear", nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := method.Parse("nvfp4")
	if err != nil {
		t.Fatal(err)
	}
	p, err := export.NewPlan(x.ck, x.top, matrices, v, export.Settings{Layout: export.ModelOpt})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	w, err := export.Create(t.Context(), p, out, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range matrices {
		k, err := store.Matrix(matrices[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Store(i, 0, &kernels.Output{Codes: k.Codes, Scales: k.Scales, Mins: k.Mins}, k.Global); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := w.Finish(t.Context()); err != nil || !r.Whole {
		t.Fatal(r, err)
	}
	compareMatrices(t, open(t, out), mustParse(t, ref, dir, Options{}))
}

// What fell back is a fallback with its reason, what was left out by choice is
// none, and what has no codes is the reference's.
func TestCodesThatFellBack(t *testing.T) {
	ref := open(t, "demo")
	const away = "model.layers.2.mlp.experts.3.down_proj.weight"
	dir := chosen{variant: "int4-g128+gptq", plain: "int4-g128", chunks: someText, each: func(k *codes.Matrix) {
		switch {
		case k.Name == away:
			*k = codes.Matrix{Name: k.Name, Rows: k.Rows, Cols: k.Cols, Effective: "bf16", Why: "its input holds a NaN"}
		case strings.Contains(k.Name, "layers.1.mlp.experts.7.down"):
			k.Effective, k.Why = "int4-g128", "no token of the calibration text was routed to it"
		}
	}}.folder(t, ref)
	c := mustParse(t, ref, dir, Options{})
	if len(c.Fallbacks) != 2 || c.Fallbacks[0].Effective != "int4-g128" || c.Fallbacks[0].Requested != "int4-g128+gptq" ||
		c.Fallbacks[0].Reason != "no token of the calibration text was routed to it" || c.Fallbacks[1].Tensor != away || c.Fallbacks[1].Effective != "bf16" || c.Fallbacks[1].Params == 0 {
		t.Errorf("%+v", c.Fallbacks)
	}
	at := model.Place{Kind: topology.Expert, Layer: 2, Expert: 3, Projection: "down"}
	sameBits(t, "what has no codes", values(t, source(t, ref), at), values(t, source(t, c), at))
	if o := source(t, c).WeightOrigin(at); o != source(t, ref).WeightOrigin(at) {
		t.Errorf("origin %v", o)
	}

	dir = chosen{variant: "int4-g128+gptq", plain: "int4-g128", change: func(m *codes.Manifest) { m.Only = []string{"gate", "up"} }, each: func(k *codes.Matrix) {
		if strings.Contains(k.Name, "down") {
			k.Effective, k.Why = "int4-g128", "not among the projections that are calibrated"
		}
	}}.folder(t, ref)
	if c := mustParse(t, ref, dir, Options{}); len(c.Fallbacks) != 0 {
		t.Errorf("%+v", c.Fallbacks)
	}
}

// A folder that is not the reference's, or not whole, is refused with what is
// wrong.
func TestCodesRefused(t *testing.T) {
	ref := open(t, "demo")
	plain := chosen{variant: "int4-g128+gptq", plain: "int4-g128"}
	other := open(t, filepath.Join("..", "model", "testdata", "qwen3_moe"))
	for name, c := range map[string]struct {
		k   func(k *chosen)
		ref *Candidate
		say []string
	}{
		"another checkpoint":   {func(*chosen) {}, other, []string{"holds codes of checkpoint " + ref.Identity[:12], other.Identity[:12]}},
		"a unit is missing":    {func(k *chosen) { k.leave = func(u string) bool { return u == "L3" } }, ref, []string{"is not finished: L3", "missing of"}},
		"another variant":      {func(k *chosen) { k.change = func(m *codes.Manifest) { m.Variant = "int5-g128+gptq" } }, ref, []string{"is of a variant that is not known", "int5-g128"}},
		"another convention":   {func(k *chosen) { k.change = func(m *codes.Manifest) { m.Convention = "modelopt" } }, ref, []string{"is of a variant that is not known", "modelopt"}},
		"another global scale": {func(k *chosen) { k.change = func(m *codes.Manifest) { m.GlobalScale = "layer" } }, ref, []string{"global scales"}},
		"too few codes": {func(k *chosen) {
			k.each = func(m *codes.Matrix) { m.Codes = m.Codes[:len(m.Codes)-m.Rows] }
		}, ref, []string{"cannot be decoded", "bytes of codes for"}},
		"another shape": {func(k *chosen) {
			k.each = func(m *codes.Matrix) { m.Rows /= 2 }
		}, ref, []string{"in the reference"}},
	} {
		k := plain
		c.k(&k)
		dir := k.folder(t, ref)
		_, err := Parse(t.Context(), c.ref, dir, Options{})
		if err == nil {
			t.Errorf("%s: is taken", name)
			continue
		}
		for _, s := range append(c.say, dir) {
			if !strings.Contains(err.Error(), s) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v does not say %q", name, err, s)
			}
		}
	}
	dir := plain.folder(t, ref)
	files, err := filepath.Glob(filepath.Join(dir, "unit-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 0x10
	if err := os.WriteFile(files[0], text, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(t.Context(), ref, dir, Options{}); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged unit: %v", err)
	}
}

// Contents tell codes apart, and say the same of the same codes in two folders.
func TestContentOfCodes(t *testing.T) {
	o := Options{Digest: func(context.Context, string) (string, error) { return "1", nil }}
	ref, err := Open(t.Context(), "demo", o)
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	content := func(k chosen) string {
		c := mustParse(t, ref, k.folder(t, ref), o)
		defer c.Close()
		return c.Content
	}
	k := chosen{variant: "nvfp4+gptq", plain: "nvfp4"}
	a := content(k)
	if a == "" || content(k) != a || mustParse(t, ref, "nvfp4", o).Content == a {
		t.Error("the same codes have two contents, or those of the variant")
	}
	flipped := k
	flipped.each = func(m *codes.Matrix) {
		if strings.HasSuffix(m.Name, "layers.1.mlp.experts.0.up_proj.weight") {
			m.Codes = slices.Clone(m.Codes)
			m.Codes[5] ^= 1
		}
	}
	tensor := k
	tensor.globals = "tensor"
	if b, c := content(flipped), content(tensor); b == a || c == a || b == c {
		t.Error("other codes have the same content")
	}
}

// Codes go into mixtures, and their text with them.
func TestMixturesOfCodes(t *testing.T) {
	ref := open(t, "demo")
	c := mustParse(t, ref, chosen{variant: "nvfp4+gptq", plain: "nvfp4+sweep", targets: "all", chunks: someText}.folder(t, ref), Options{})
	plain := mustParse(t, ref, "nvfp4+sweep@all", Options{})
	for name, mix := range map[string]func(*Candidate) (*Candidate, error){
		"keep": func(c *Candidate) (*Candidate, error) { return Keep(ref, c, "*layers.2.*") },
		"head": func(c *Candidate) (*Candidate, error) { return WithHead(ref, c) },
		"body": func(c *Candidate) (*Candidate, error) { return WithBody(ref, c) },
		"only": func(c *Candidate) (*Candidate, error) { return Only(ref, c, "attention") },
	} {
		a, err := mix(c)
		if err != nil {
			t.Fatal(err)
		}
		b, err := mix(plain)
		if err != nil {
			t.Fatal(err)
		}
		compareMatrices(t, b, a)
		if texts, err := a.CalibrationTexts(); err != nil || len(texts) != 1 {
			t.Errorf("%s: %d texts, %v", name, len(texts), err)
		}
	}
	if f, ok := source(t, c).(model.Forker); !ok || f.Fork() == nil {
		t.Error("codes cannot be read ahead")
	}
	one, two := source(t, c), source(t, c)
	if one.LayerOrigin(2) != two.LayerOrigin(2) || one.LayerOrigin(2) == source(t, ref).LayerOrigin(2) {
		t.Error("a layer of codes has an origin of its own each time, or the reference's")
	}
}

// A calibrated variant by its name is what Options.Calibrate gives; without it, and
// in a recipe, it is refused.
func TestCalibratedByName(t *testing.T) {
	ref := open(t, "demo")
	if _, err := Parse(t.Context(), ref, "int4-g128+gptq", Options{}); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), "nothing is here that calibrates") {
		t.Errorf("%v", err)
	}
	asked := ""
	o := Options{Targets: "linear", Calibrate: func(_ context.Context, r *Candidate, v method.Variant, targets string) (*codes.Store, error) {
		asked = v.Name + "@" + targets
		if v.ActOrder {
			return nil, errors.New("there is no text")
		}
		return codes.Open(chosen{variant: v.Name, plain: "int4-g128", targets: targets}.folder(t, r))
	}}
	for spec, want := range map[string]string{
		"int4-g128+gptq": "int4-g128+gptq@linear", "x=int4-g128+gptq@all": "int4-g128+gptq@all", "int4-g128+gptq@default": "int4-g128+gptq@", "int4-g128+range+gptq@*layers.1.*": "int4-g128+range+gptq@*layers.1.*",
	} {
		c := mustParse(t, ref, spec, o)
		if asked != want || c.Effective != strings.TrimSuffix(want, "@") || c.Path != "demo" || c.Kind != Codes {
			t.Errorf("%s asked for %s and is %+v", spec, asked, c)
		}
		base, err := BaselineOf(ref, c, o)
		if err != nil || base.Effective != strings.Replace(c.Effective, "+gptq", "", 1) {
			t.Errorf("%s: %v, %+v", spec, err, base)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Parse(t.Context(), ref, "int4-g128+gptq+act", o); err == nil || err.Error() != "int4-g128+gptq+act: there is no text" {
		t.Errorf("%v", err)
	}
	recipe := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(recipe, []byte("groups:\n  - targets: [\"*experts*\"]\n    scheme: int4-g128\n    methods: [gptq]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(t.Context(), ref, recipe, o); err == nil || !strings.Contains(err.Error(), "is calibrated, and recipes are made on the fly") {
		t.Errorf("%v", err)
	}
	if _, err := BaselineOf(ref, mustParse(t, ref, "nvfp4", o), o); !errors.Is(err, ErrSpec) {
		t.Errorf("%v", err)
	}
}

package demo

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// rel2 measures a matrix under nvfp4 round to nearest.
func rel2(t testing.TB, m *SynthMatrix) float64 {
	t.Helper()
	data := make([]byte, 2*m.Rows*m.Cols)
	if err := m.Fill(data); err != nil {
		t.Fatal(err)
	}
	sets := kernels.Available()
	tap, err := sets[len(sets)-1].NVFP4(kernels.Matrix{Element: kernels.BF16, Rows: m.Rows, Cols: m.Cols, Data: data}, kernels.NVFP4Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tap.Rel2()
}

// meanRel2 is the mean over matrices and its relative standard error.
func meanRel2(t testing.TB, s Synth, keep func(*SynthMatrix) bool) (mean, se float64) {
	t.Helper()
	ms, err := s.Matrices()
	if err != nil {
		t.Fatal(err)
	}
	sum, sum2, n := 0.0, 0.0, 0.0
	for i := range ms {
		if keep(&ms[i]) {
			x := rel2(t, &ms[i])
			sum, sum2, n = sum+x, sum2+x*x, n+1
		}
	}
	mean = sum / n
	return mean, math.Sqrt((sum2/n-mean*mean)/(n-1)) / mean
}

func routedExperts(m *SynthMatrix) bool { return m.Role.Kind == topology.Expert }

// Planted factors are what nvfp4 measures: what they add to 1 is right within
// 4 % and five standard errors.
func TestPlantRatios(t *testing.T) {
	t.Parallel()
	for _, size := range []Synth{
		{Layers: 2, Experts: 200, Hidden: 64, Intermediate: 64, Seed: 3},
		{Layers: 1, Experts: 40, Hidden: 256, Intermediate: 128, Seed: 4},
		{Layers: 1, Experts: 200, Hidden: 72, Intermediate: 40, Seed: 5}, // short blocks
	} {
		flat, flatErr := meanRel2(t, size, routedExperts)
		for _, f := range []float64{0.1, 0.9, 1.02, 1.06, 1.5, 2.7} {
			s := size
			for _, p := range []string{"gate", "up", "down"} {
				s.Plants = append(s.Plants, Plant{Kind: PlantProjection, Projection: p, Factor: f})
			}
			mean, meanErr := meanRel2(t, s, routedExperts)
			got := mean / flat
			if bound := bound*got*math.Hypot(flatErr, meanErr) + 0.04*math.Abs(f-1); math.Abs(got-f) > bound {
				t.Errorf("%d×%d: rel2 is %.4f of the flat one, want %v within %.4f", s.Intermediate, s.Hidden, got, f, bound)
			}
		}
	}
}

// Planted blocks have the energy of Gaussian ones, so that nothing but the error
// tells them apart.
func TestPlantEnergy(t *testing.T) {
	for _, width := range []uint64{16, 8, 3, 1} {
		for _, factor := range []float64{0.5, 2} {
			p := newPlanted(1, "w", int(width), factor)
			const blocks = 1 << 16
			sum, sum2 := 0.0, 0.0
			for b := range uint64(blocks) {
				e := 0.0
				for j := range width {
					v := p.element(b, j, width)
					e += v * v
				}
				e /= float64(width)
				sum, sum2 = sum+e, sum2+e*e
			}
			mean := sum / blocks
			if se := math.Sqrt((sum2/blocks - mean*mean) / blocks); math.Abs(mean-1) > bound*se {
				t.Errorf("blocks of %d at factor %v: mean square %v, want 1 within %v", width, factor, mean, bound*se)
			}
		}
	}
}

// A fraction of blocks is met to within one block, at even distances, and in
// the mean over tensors exactly.
func TestPlantFraction(t *testing.T) {
	const blocks, tensors = 256, 2000
	sum := 0
	for i := range tensors {
		p := newPlanted(7, fmt.Sprint(i), 64, 1.03)
		n := 0
		for b := range uint64(blocks) {
			if p.has(b) {
				n++
			}
		}
		if want := blocks * 0.03 / (hardRatio - 1); math.Abs(float64(n)-want) > 1 {
			t.Fatalf("%d blocks, want %v", n, want)
		}
		sum += n
	}
	want := blocks * 0.03 / (hardRatio - 1)
	if got := float64(sum) / tensors; math.Abs(got-want) > bound*0.5/math.Sqrt(tensors) {
		t.Errorf("%v blocks in the mean, want %v", got, want)
	}
}

// Any part of a tensor is the same as in the whole, planted or not, also where
// blocks are short and chunks cut them.
func TestPlantParts(t *testing.T) {
	const rows, cols = 7, 22
	p := newPlanted(3, "w", cols, 2)
	whole := bytes.Repeat([]byte{0xFF}, 2*rows*cols)
	p.bf16(whole, 0, 0.5)
	touched := 0
	for i := 0; i < len(whole); i += 2 {
		if whole[i] != 0xFF || whole[i+1] != 0xFF {
			touched++
		}
	}
	if touched == 0 || touched == rows*cols {
		t.Fatalf("%d of %d elements are planted", touched, rows*cols)
	}
	for first := 0; first < rows*cols; first++ {
		for end := first + 1; end <= rows*cols; end += 5 {
			part := bytes.Repeat([]byte{0xFF}, 2*(end-first))
			p.bf16(part, uint64(first), 0.5)
			if !bytes.Equal(part, whole[2*first:2*end]) {
				t.Fatalf("elements %d to %d differ from the whole", first, end)
			}
		}
	}
}

// Plants change the matrices that they are about, by the product of their
// factors, and no other byte.
func TestPlantPlaces(t *testing.T) {
	flat := Synth{Layers: 3, Experts: 5, Seed: 2}
	s := flat
	s.Plants = []Plant{
		{Kind: PlantLayer, Index: 2, Factor: 1.5}, {Kind: PlantExpert, Index: 4, Factor: 0.5},
		{Kind: PlantProjection, Projection: "down", Factor: 1.2}, {Kind: PlantTail, Fraction: 0.1, Factor: 1.3},
	}
	plain, _ := write(t, flat)
	got, _ := write(t, s)
	tail, err := s.Tail()
	if err != nil || len(tail) != 5 { // 4.5 of 45
		t.Fatalf("%d tensors in the tail, %v", len(tail), err)
	}
	for i := range got.Tensors {
		w := &got.Tensors[i]
		want := 1.0
		inLayer := strings.Contains(w.Name, ".layers.2.") && strings.HasSuffix(w.Name, "_proj.weight")
		if inLayer {
			want *= 1.5
		}
		if strings.Contains(w.Name, ".mlp.experts.4.") {
			want *= 0.5
		}
		if strings.Contains(w.Name, "down_proj") {
			want *= 1.2
		}
		if slices.Contains(tail, w.Name) {
			want *= 1.3
		}
		if same := bytes.Equal(bytesOf(t, got, w.Name), bytesOf(t, plain, w.Name)); same != (want == 1) {
			t.Errorf("%s: same bytes: %v, planted with %v", w.Name, same, want)
		}
	}
	s.Seed = 3
	if other, err := s.Tail(); err != nil || slices.Equal(other, tail) {
		t.Errorf("another seed has the same tail %v, %v", other, err)
	}
}

func bytesOf(t *testing.T, c *checkpoint.Checkpoint, name string) []byte {
	t.Helper()
	w, ok := c.Lookup(name)
	if !ok {
		t.Fatalf("%s is not there", name)
	}
	raw := make([]byte, w.Size)
	if err := c.ReadAt(context.Background(), w, 0, raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

// A matrix made in memory is the one in the file.
func TestSynthMatrices(t *testing.T) {
	s := Synth{Layers: 2, Experts: 3, Hidden: 72, Intermediate: 40, Seed: 9, Plants: []Plant{{Kind: PlantLayer, Index: 1, Factor: 1.4}}}
	c, _ := write(t, s)
	model, err := topology.FromCheckpoint(c)
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]topology.Role{}
	for i, n := range model.Tensors {
		roles[n.Name] = model.Roles[i]
	}
	ms, err := s.Matrices()
	if err != nil || len(ms) != 3*4+3+2*(3+1)*3 {
		t.Fatalf("%d matrices, %v", len(ms), err)
	}
	for i := range ms {
		m := &ms[i]
		data := make([]byte, 2*m.Rows*m.Cols)
		if err := m.Fill(data); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, bytesOf(t, c, m.Name)) {
			t.Errorf("%s differs from the file", m.Name)
		}
		if m.Role != roles[m.Name] {
			t.Errorf("%s is %+v, its name says %+v", m.Name, m.Role, roles[m.Name])
		}
		if err := m.Fill(data[1:]); err == nil {
			t.Errorf("%s: filled into too little room", m.Name)
		}
	}
}

func TestParsePlants(t *testing.T) {
	const text = "layer=5:1.06,expert=17:1.03,projection=down:1.02,tail=0.01:1.5"
	plants, err := ParsePlants(text)
	if err != nil {
		t.Fatal(err)
	}
	var back []string
	for _, p := range plants {
		back = append(back, p.String())
	}
	if got := strings.Join(back, ","); got != text {
		t.Errorf("%s, want %s", got, text)
	}
	for text, want := range map[string]string{
		"":                              "want KIND=WHICH:FACTOR",
		"layer=5":                       "want KIND=WHICH:FACTOR",
		"layer:5=1":                     "want KIND=WHICH:FACTOR",
		"layer=x:1.1":                   `layer "x" is no number`,
		"layer=5:big":                   `factor "big" is no number`,
		"tail=half:2":                   `tail "half" is no number`,
		"head=5:1.1":                    `unknown kind "head" (known: layer, expert, projection, tail)`,
		"layer=5:1.1,":                  "want KIND=WHICH:FACTOR",
		"layer=5.5:1.1":                 `layer "5.5" is no number`,
		"expert=99999999999999999999:1": "is no number",
	} {
		if _, err := ParsePlants(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestPlantsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"layer=5:1.1":                     "there is no layer 5 (layers 0 to 4)",
		"layer=-1:1.1":                    "there is no layer -1",
		"expert=16:1.1":                   "there is no expert 16 (experts 0 to 15)",
		"projection=qkv:1.1":              "known: gate, up, down, q, k, v, o",
		"tail=0:1.1":                      "fraction is 0",
		"tail=1.5:1.1":                    "fraction is 1.5",
		"tail=NaN:1.1":                    "fraction is NaN",
		"layer=1:0":                       "factor is 0, want 0.08 to 2.785",
		"layer=1:Inf":                     "factor is +Inf",
		"layer=1:NaN":                     "factor is NaN",
		"layer=1:2.8":                     "multiply to 2.8, want 0.08 to 2.785",
		"layer=1:0.07":                    "multiply to 0.07",
		"layer=1:2,expert=3:1.5":          "model.layers.1.mlp.experts.3.gate_proj.weight\": planted factors multiply to 3",
		"layer=1:1.1,layer=1:1.2":         "layer=1 is planted twice",
		"tail=0.1:1.1,tail=0.2:1.2":       "tail is planted twice",
		"projection=q:1.1,projection=q:1": "projection=q is planted twice",
	} {
		plants, err := ParsePlants(text)
		if err != nil {
			t.Fatal(err)
		}
		s := Synth{Layers: 4, Experts: 16, Plants: plants}
		if _, err := s.Matrices(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := (Synth{Layers: 2, Experts: 2, Plants: []Plant{{Kind: "head", Factor: 1}}}).Matrices(); err == nil || !strings.Contains(err.Error(), "unknown kind") {
		t.Errorf("an unknown kind: %v", err)
	}
}

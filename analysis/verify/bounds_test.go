package verify

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// rescaled is an export whose every other block has a scale that no method here
// chooses, with the codes that are nearest under it.
func rescaled(t *testing.T) exported {
	t.Helper()
	e := exportMoE(t, "nvfp4", "modelopt")
	forget(t, e.dir)
	ck, model := openSource(t, e.dir)
	l, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Modules {
		m := &l.Modules[i]
		var s layout.Stored
		if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(e.model.Matrices, func(x topology.Matrix) bool { return x.Name == m.Name+".weight" })
		w := make([]float32, m.Rows*m.Cols)
		if err := kernels.DecodeFloats(w, kernels.BF16, readMatrix(t, e.ck, &e.model.Matrices[k]).Data); err != nil {
			t.Fatal(err)
		}
		for b := range s.Scales {
			if b%2 == 1 && s.Scales[b] < 0x7D {
				s.Scales[b] += 2 // about a quarter more
			}
			step := kernels.E4M3ToF32(s.Scales[b]) * s.Global
			for c := range 16 {
				at := b*16 + c
				s.Codes[at/2] = s.Codes[at/2]&^(15<<(at%2*4)) | nearest(w[at]/step)<<(at%2*4)
			}
		}
		bytesOf(t, e.dir, m.CodeTensor().Name, func(raw []byte) { copy(raw, s.Codes) })
		bytesOf(t, e.dir, m.ScaleTensor().Name, func(raw []byte) { copy(raw, s.Scales) })
	}
	return e
}

// nearest is the E2M1 code nearest to x, by trying.
func nearest(x float32) byte {
	best, at := math.Inf(1), byte(0)
	for c := range byte(16) {
		if d := math.Abs(float64(kernels.E2M1ToF32(c)) - float64(x)); d < best {
			best, at = d, c
		}
	}
	return at
}

// What nothing here makes is held against the nearest codes: it passes when they
// are, and one that is not is found.
func TestUnknownMethod(t *testing.T) {
	e := rescaled(t)
	rep := e.verify(t, Options{})
	if !rep.OK || rep.Variant != "" || rep.From != "" || rep.QuantizedReproduced != 0 || rep.QuantizedChecked != 10 {
		t.Fatalf("%+v", rep)
	}
	if !slices.ContainsFunc(rep.Notes, func(n string) bool { return strings.Contains(n, "nothing that is known here makes it") }) {
		t.Errorf("notes %q", rep.Notes)
	}
	const q = layer + "self_attn.q_proj.weight"
	for _, c := range []struct {
		name, tensor string
		change       func(raw []byte)
		id           string
		words        []string
	}{
		{"a sign", q, func(raw []byte) { raw[3*32+5] ^= 0x80 }, CodesDiffer, []string{"[3,11]", "1 of 4096"}},
		{"a code next to it", layer + "self_attn.o_proj.weight", func(raw []byte) { raw[0] = raw[0]&0xF0 | nearby(raw[0]&15) }, ErrorBound, []string{"[0,0]"}},
		{"a scale", q + "_scale", func(raw []byte) { raw[5*4+2] -= 16 }, ErrorBound, []string{"[5,"}},
		{"a negative scale", q + "_scale", func(raw []byte) { raw[5*4+2] |= 0x80 }, ScaleZero, []string{"[5,2]"}},
		{"a global scale", layer + "self_attn.v_proj.weight_scale_2", func(raw []byte) {
			binary.LittleEndian.PutUint32(raw, math.Float32bits(math.Float32frombits(binary.LittleEndian.Uint32(raw))*1.5))
		}, GlobalDiffers, []string{"largest magnitude"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := e.copied(t)
			bytesOf(t, bad.dir, c.tensor, c.change)
			rep := bad.verify(t, Options{})
			found := false
			for _, p := range rep.Problems {
				if p.ID != c.id || !strings.HasPrefix(p.Tensor, strings.TrimSuffix(c.tensor, "_scale")) {
					continue
				}
				found = true
				for _, w := range c.words {
					if !strings.Contains(p.Message, w) {
						t.Errorf("%q is not in %q", w, p.Message)
					}
				}
			}
			if !found || rep.OK {
				t.Errorf("no %s of %s in %v", c.id, c.tensor, rep.Problems)
			}
		})
	}
}

// nearby is the code one step up in magnitude, or down from the largest.
func nearby(c byte) byte {
	if c&7 == 7 {
		return c - 1
	}
	return c + 1
}

// The largest error of the nearest code, by trying: a value in the middle of two
// codes.
func TestHalfSteps(t *testing.T) {
	for _, c := range []struct {
		format  string
		x       float64
		half    float64
		clipped bool
	}{
		{"nvfp4", 0.25, 0.25, false}, {"nvfp4", -1.75, 0.25, false}, {"mxfp4", 2.5, 0.5, false}, {"nvfp4", 5, 1, false}, {"nvfp4", -6.5, 0, true},
		{"fp8", 432, 16, false}, {"fp8", 1, 0x1p-4, false}, {"fp8", -1.75, 0x1p-4, false}, {"fp8", 0x1p-6, 0x1p-10, false}, {"fp8", 0x1p-9, 0x1p-10, false}, {"fp8", 449, 0, true},
	} {
		f, err := kernels.FormatByName(c.format)
		if err != nil {
			t.Fatal(err)
		}
		const step = 0x1p-3
		half, worst, clipped := (&tally{format: f}).halfStep(c.x*step, 0, step)
		wide := slack
		if c.format == "fp8" {
			wide = slackE4M3
		}
		if half != c.half*step*wide || clipped != c.clipped || !clipped && half > worst {
			t.Errorf("%s %v: half a step is %v of %v, clipped %t; want %v, %t", c.format, c.x, half/step, worst/step, clipped, c.half, c.clipped)
		}
	}
}

// FP8 codes of quotients that were rounded to bf16, as nvidia-modelopt 0.47
// writes them from bf16 weights under one scale a tensor, are near what is made
// here without being the same: no method is taken for theirs, and they pass.
func TestOtherRounding(t *testing.T) {
	e := exportMoE(t, "fp8", "modelopt")
	forget(t, e.dir)
	ck, model := openSource(t, e.dir)
	l, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i := range l.Modules {
		m := &l.Modules[i]
		scale, err := m.Global(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(e.model.Matrices, func(x topology.Matrix) bool { return x.Name == m.Name+".weight" })
		w := make([]float32, m.Rows*m.Cols)
		if err := kernels.DecodeFloats(w, kernels.BF16, readMatrix(t, e.ck, &e.model.Matrices[k]).Data); err != nil {
			t.Fatal(err)
		}
		for c := range w {
			w[c] /= scale
		}
		kernels.RoundBF16(w)
		bytesOf(t, e.dir, m.CodeTensor().Name, func(raw []byte) {
			for c := range w {
				if code := kernels.F32ToE4M3(w[c]); code != raw[c] {
					raw[c] = code
					moved++
				}
			}
		})
	}
	if moved < 100 {
		t.Fatalf("%d codes moved", moved)
	}
	rep := e.verify(t, Options{})
	if !rep.OK || rep.From != "" || rep.QuantizedReproduced != 0 || len(rep.Notes) == 0 || !strings.Contains(rep.Notes[0], "the nearest, fp8 by modelopt, 9") {
		t.Errorf("%+v", rep)
	}
}

package kernels

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// blocked is what a pass wrote.
type blocked struct {
	Output
	global float32
	tap    Tap
}

// quantizeBlocks runs a pass over a whole matrix, or over chunks of rows.
func quantizeBlocks(t testing.TB, set Set, m Matrix, spec Spec, chunk int) blocked {
	t.Helper()
	amax := float32(0)
	if spec.NeedsAmax() {
		var err error
		if amax, err = set.AbsMax(m); err != nil {
			t.Fatal(err)
		}
	}
	p := beginTest(t, set, m, spec, amax)
	var err error
	if chunk == 0 || m.Cols == 0 {
		chunk = max(m.Rows, 1)
	}
	b := blocked{global: p.Global()}
	rowBytes := m.Cols * m.Element.Size()
	for top := 0; top < m.Rows; top += chunk {
		rows := min(chunk, m.Rows-top)
		n := p.Sizes(rows)
		o := Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins), RowE2: make([]float64, rows), RowW2: make([]float64, rows)}
		if err := p.Rows(m.Data[top*rowBytes:(top+rows)*rowBytes], &o); err != nil {
			t.Fatal(err)
		}
		b.Codes, b.Scales, b.Mins = append(b.Codes, o.Codes...), append(b.Scales, o.Scales...), append(b.Mins, o.Mins...)
		b.RowE2, b.RowW2 = append(b.RowE2, o.RowE2...), append(b.RowW2, o.RowW2...)
	}
	if b.tap, err = p.Finish(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *blocked) decode(t testing.TB, spec Spec, m Matrix) []float32 {
	t.Helper()
	dst := make([]float32, m.Rows*m.Cols)
	if err := Dequantize(dst, spec, m.Rows, m.Cols, b.Codes, b.Scales, b.Mins, b.global); err != nil {
		t.Fatal(err)
	}
	return dst
}

// blockSpecs are all formats of blockTap with all conventions and methods.
func blockSpecs() (specs []Spec) {
	for _, f := range Formats() {
		if f.Scale == "e4m3" {
			continue
		}
		for _, c := range Conventions(f.Name) {
			if f.Codebook { // its methods choose no codes
				specs = append(specs, testBook(Spec{Format: f.Name, Convention: c, Method: "l2"}))
				continue
			}
			methods := Methods(f.Name)
			if c == Conventions(f.Name)[0] || !testing.Short() { // where processors are emulated, weighing under one convention
				methods = append(methods, Weighted(f.Name)...)
			}
			for _, m := range methods {
				specs = append(specs, Spec{Format: f.Name, Convention: c, Method: m})
			}
		}
	}
	return specs
}

// testBook is a spec with −1, 0, 1 and 6 as its codebook.
func testBook(spec Spec) Spec {
	spec.Use(Recoding{Codebook: 1<<2 | 1<<7 | 1<<10 | 1, L2: 0.1, Sym: 0.2})
	return spec
}

func specName(s Spec) string { return s.Format + "/" + s.Convention.String() + "/" + s.Method }

// bf16Of rounds decoded values for a comparison.
func bf16Of(x []float32) []uint16 {
	out := make([]uint16, len(x))
	for i, v := range x {
		out[i] = F32ToBF16(v)
	}
	return out
}

// checkBias compares a record's sign bias with sums of rows.
func checkBias(t testing.TB, f Format, tap Tap, rowErr, rowAbs []float64) {
	t.Helper()
	if tap.HasBias != f.Codebook {
		t.Errorf("%s: a sign bias: %v", f.Name, tap.HasBias)
	}
	if !tap.HasBias {
		return
	}
	var sumErr, sumAbs, sum2, worst float64
	var rows, positive int64
	for i, err := range rowErr {
		sumErr, sumAbs = sumErr+err, sumAbs+rowAbs[i]
		if rowAbs[i] == 0 {
			continue
		}
		rows++
		if err > 0 {
			positive++
		}
		r := err / rowAbs[i]
		sum2, worst = sum2+r*r, max(worst, math.Abs(r))
	}
	b := &tap.Bias
	if b.Rows != rows || b.Positive != positive || math.Abs(b.SumErr-sumErr) > 1e-12*sumAbs || !close64(b.SumAbsW, sumAbs, 1e-12) ||
		math.Abs(b.SumRow2-sum2) > 1e-11*float64(rows) || math.Abs(b.RowMax-worst) > 1e-11 {
		t.Errorf("%s: sign bias %+v, want Σ(q−w) %v, Σ|w| %v, %d rows, %d positive, Σr² %v, largest %v", f.Name, *b, sumErr, sumAbs, rows, positive, sum2, worst)
	}
	if sumAbs > 0 && (math.Abs(b.Value()-sumErr/sumAbs) > 1e-12 || math.Abs(b.RowRMS()-math.Sqrt(sum2/float64(rows))) > 1e-11) {
		t.Errorf("%s: sign bias %v, of rows %v", f.Name, b.Value(), b.RowRMS())
	}
}

// checkBlockTap compares a record with what plain loops find in the decoded
// values.
func checkBlockTap(t testing.TB, m Matrix, spec Spec, b *blocked, decoded []float32) {
	t.Helper()
	f, err := FormatByName(spec.Format)
	if err != nil {
		t.Fatal(err)
	}
	w := make([]float32, len(decoded))
	if err := DecodeFloats(w, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	var want Tap
	rowE2, rowW2 := make([]float64, m.Rows), make([]float64, m.Rows)
	rowErr, rowAbs := make([]float64, m.Rows), make([]float64, m.Rows)
	rowCodes := ceilDiv(m.Cols*f.Bits, 8)
	for i, v := range w {
		want.Elements++
		switch {
		case v != v:
			want.NaN++
			continue
		case v-v != 0:
			want.Inf++
			continue
		}
		x, y := float64(v), float64(decoded[i])
		want.SumW2 += x * x
		want.SumQ2 += y * y
		want.SumWQ += x * y
		want.SumE2 += (x - y) * (x - y)
		want.MaxAbsErr = max(want.MaxAbsErr, math.Abs(x-y))
		want.Amax = max(want.Amax, math.Abs(x))
		rowE2[i/m.Cols] += (x - y) * (x - y)
		rowW2[i/m.Cols] += x * x
		rowErr[i/m.Cols] += y - x
		rowAbs[i/m.Cols] += math.Abs(x)
		code := b.Codes[i/m.Cols*rowCodes+i%m.Cols*f.Bits/8]
		switch f.Bits {
		case 8:
			want.Codes[code>>4]++
		case 4:
			want.Codes[code>>(i%m.Cols%2*4)&15]++
		default:
			want.Codes[F32ToE2M1(Codebook(spec.Codebook)[code>>(i%m.Cols%4*2)&3])]++
		}
	}
	checkBias(t, f, b.tap, rowErr, rowAbs)
	got := b.tap
	blocks, err := f.Scales(m.Rows, m.Cols)
	if err != nil {
		t.Fatal(err)
	}
	if f.Scope == ScopeTensor && len(w) == 0 {
		blocks = 0
	}
	if got.Elements != want.Elements || got.NaN != want.NaN || got.Inf != want.Inf || got.Blocks != int64(blocks) || got.MaxAbsErr != want.MaxAbsErr || got.Amax != want.Amax {
		t.Errorf("%d elements %d NaN %d Inf %d blocks, off by %v of %v; want %d %d %d %d, %v of %v", got.Elements, got.NaN, got.Inf, got.Blocks, got.MaxAbsErr, got.Amax,
			want.Elements, want.NaN, want.Inf, blocks, want.MaxAbsErr, want.Amax)
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{{"SumW2", got.SumW2, want.SumW2}, {"SumQ2", got.SumQ2, want.SumQ2}, {"SumE2", got.SumE2, want.SumE2}} {
		if !close64(c.got, c.want, 1e-12) {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
	if math.Abs(got.SumWQ-want.SumWQ) > 1e-12*math.Sqrt(want.SumW2*want.SumQ2) {
		t.Errorf("SumWQ %v, want %v", got.SumWQ, want.SumWQ)
	}
	for r := range rowE2 {
		if !close64(b.RowE2[r], rowE2[r], 1e-12) || !close64(b.RowW2[r], rowW2[r], 1e-12) {
			t.Errorf("row %d: %v of %v, want %v of %v", r, b.RowE2[r], b.RowW2[r], rowE2[r], rowW2[r])
		}
	}
	if got.Codes != want.Codes {
		t.Errorf("use of codes %v, want %v", got.Codes, want.Codes)
	}
	if gap := got.IdentityGap(); gap > 1e-9*max(1, got.Rel2()) {
		t.Errorf("identity gap %v at rel2 %v", gap, got.Rel2())
	}
	checkCounts(t, got)
}

// equalBits compares code or scale bytes.
func equalBits(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %s", what, firstDiff(got, want))
	}
}

// zeroEither makes code 8 of E2M1, −0, a 0.
func zeroEither(codes []byte) []byte {
	out := slices.Clone(codes)
	for i, b := range out {
		if b&15 == 8 {
			b &^= 15
		}
		if b>>4 == 8 {
			b &= 15
		}
		out[i] = b
	}
	return out
}

func TestMXFP4Golden(t *testing.T) {
	for _, set := range Available() {
		for _, file := range []string{"gaussian", "heavy_tail", "edge"} {
			g := golden(t, "golden/mxfp4_"+file+".safetensors")
			m := need(t, g, "w").matrix(t)
			for _, conv := range []Convention{CT, CT32, ModelOpt} {
				t.Run(set.Name+"/"+file+"/"+conv.String(), func(t *testing.T) {
					prefix, codes, src := "ct", "ct.weight_packed", m
					switch conv {
					case ModelOpt:
						prefix, codes = "modelopt", "modelopt.weight"
					case CT32:
						src = asF32(t, m)
					}
					spec := Spec{Format: "mxfp4", Convention: conv}
					b := quantizeBlocks(t, set, src, spec, 0)
					equalBits(t, "scales", b.Scales, need(t, g, prefix+".weight_scale").data)
					if conv == ModelOpt {
						equalBits(t, "codes", b.Codes, need(t, g, codes).data)
					} else {
						equalBits(t, "codes", zeroEither(b.Codes), zeroEither(need(t, g, codes).data))
					}
					decoded := b.decode(t, spec, m)
					if conv == ModelOpt {
						if want := need(t, g, "modelopt.dequant_f32").f32(); !slices.Equal(decoded, want) {
							t.Errorf("decoded: %s", firstDiff(decoded, want))
						}
					} else {
						for i, h := range need(t, g, "ct.dequant_bf16").u16() {
							if BF16ToF32(h) != decoded[i] {
								t.Fatalf("element %d decodes to %v, want %v", i, decoded[i], BF16ToF32(h))
							}
						}
					}
					checkBlockTap(t, src, spec, &b, decoded)
				})
			}
		}
	}
}

// The blocks of gpt-oss, [experts, rows, groups, 16], are rows of codes with a
// scale a group; the loader transposes what they decode to.
func TestMXFP4OfGPTOSS(t *testing.T) {
	g := golden(t, "golden/mxfp4_gpt_oss_layout.safetensors")
	blocks, scales := need(t, g, "gate_up_proj_blocks"), need(t, g, "gate_up_proj_scales")
	experts, rows, cols := blocks.Shape[0], blocks.Shape[1], blocks.Shape[2]*32
	decoded := make([]float32, experts*rows*cols)
	if err := Dequantize(decoded, Spec{Format: "mxfp4", Convention: CT32}, experts*rows, cols, blocks.data, scales.data, nil, 0); err != nil {
		t.Fatal(err)
	}
	f32, bf16 := need(t, g, "dequant_f32").f32(), need(t, g, "dequant_bf16").u16()
	for i, v := range decoded {
		e, r, c := i/(rows*cols), i/cols%rows, i%cols
		at := (e*cols+c)*rows + r
		if v != f32[at] || BF16ToF32(F32ToBF16(v)) != BF16ToF32(bf16[at]) {
			t.Fatalf("expert %d row %d column %d: %v, want %v", e, r, c, v, f32[at])
		}
	}
}

func TestFP8Golden(t *testing.T) {
	for _, set := range Available() {
		for _, file := range []string{"gaussian", "heavy_tail"} {
			g := golden(t, "golden/fp8_"+file+".safetensors")
			m := need(t, g, "w").matrix(t)
			for _, format := range []string{"fp8", "fp8-channel", "fp8-block128"} {
				kind := map[string]string{"fp8": "tensor", "fp8-channel": "channel", "fp8-block128": "block128"}[format]
				for _, conv := range []Convention{ModelOpt, CT32, CT} {
					prefix := conv.String() + "." + kind
					if _, ok := g[prefix+".weight"]; !ok {
						if format != "fp8-block128" || conv != ModelOpt {
							t.Fatalf("no %s", prefix)
						}
						continue
					}
					t.Run(set.Name+"/"+file+"/"+prefix, func(t *testing.T) {
						src := m
						if conv == CT32 {
							src = asF32(t, m)
						}
						spec := Spec{Format: format, Convention: conv}
						b := quantizeBlocks(t, set, src, spec, 0)
						equalBits(t, "scales", b.Scales, need(t, g, prefix+".weight_scale").data)
						equalBits(t, "codes", b.Codes, need(t, g, prefix+".weight").data)
						decoded := b.decode(t, spec, m)
						if want, ok := g[prefix+".dequant"]; ok {
							if got, want := bf16Of(decoded), want.u16(); !slices.Equal(got, want) {
								t.Errorf("decoded: %s", firstDiff(got, want))
							}
						}
						checkBlockTap(t, src, spec, &b, decoded)
						if format == "fp8" && b.global != storedScale(t, b.Scales) {
							t.Errorf("tensor scale %v is not the stored one", b.global)
						}
					})
				}
			}
		}
	}
}

// storedScale is a stored scale, bf16 or f32.
func storedScale(t testing.TB, raw []byte) float32 {
	t.Helper()
	switch len(raw) {
	case 2:
		return BF16ToF32(binary.LittleEndian.Uint16(raw))
	case 4:
		return math.Float32frombits(binary.LittleEndian.Uint32(raw))
	}
	t.Fatalf("a scale of %d bytes", len(raw))
	return 0
}

func TestFP8DeepSeekGolden(t *testing.T) {
	spec := Spec{Format: "fp8-block128", Convention: DeepSeek}
	g := golden(t, "golden/fp8_deepseek_block128.safetensors")
	m := need(t, g, "w").matrix(t)
	for _, set := range Available() {
		b := quantizeBlocks(t, set, m, spec, 0)
		equalBits(t, set.Name+" scales", b.Scales, need(t, g, "weight_scale_inv").data)
		equalBits(t, set.Name+" codes", b.Codes, need(t, g, "weight").data)
		decoded := b.decode(t, spec, m)
		if got, want := bf16Of(decoded), need(t, g, "dequant_bf16").u16(); !slices.Equal(got, want) {
			t.Errorf("%s decoded: %s", set.Name, firstDiff(got, want))
		}
		checkBlockTap(t, m, spec, &b, decoded)
	}

	g = golden(t, "golden/fp8_deepseek_ragged_dequant.safetensors")
	codes := need(t, g, "weight")
	decoded := make([]float32, len(codes.data))
	if err := Dequantize(decoded, spec, codes.Shape[0], codes.Shape[1], codes.data, need(t, g, "weight_scale_inv").data, nil, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := bf16Of(decoded), need(t, g, "dequant_bf16").u16(); !slices.Equal(got, want) {
		t.Errorf("ragged: %s", firstDiff(got, want))
	}
}

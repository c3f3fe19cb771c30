package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// fp4Specs are the arithmetics of FP4 matrices, with a format that has the same scales
// and a codebook.
func fp4Specs() (specs [][2]Spec) {
	for _, name := range []string{"code2", "code2-mxfp4"} {
		for _, conv := range Conventions(name) {
			wide, _ := CodebookBase(name)
			specs = append(specs, [2]Spec{{Format: wide, Convention: conv}, {Format: name, Convention: conv}})
		}
	}
	return specs
}

// fp4Of quantizes a matrix to nearest.
func fp4Of(t testing.TB, m Matrix, spec Spec) FP4 {
	t.Helper()
	b := quantizeBlocks(t, Best(), m, spec, 0)
	return FP4{Format: spec.Format, Convention: spec.Convention, Rows: m.Rows, Cols: m.Cols, Codes: b.Codes, Scales: b.Scales, Global: b.global}
}

// randomFP4 has codes and scales of all kinds.
func randomFP4(rng *rand.Rand, spec Spec, rows, cols int) FP4 {
	f, _ := FormatByName(spec.Format)
	m := FP4{Format: spec.Format, Convention: spec.Convention, Rows: rows, Cols: cols, Codes: make([]byte, rows*ceilDiv(cols, 2)), Scales: make([]byte, rows*ceilDiv(cols, f.Group))}
	if f.Scale == "e4m3" {
		m.Global = float32(math.Exp2(rng.Float64()*20 - 10))
	}
	for i := range m.Codes {
		m.Codes[i] = byte(rng.Uint32())
	}
	for i := range m.Scales {
		m.Scales[i] = byte(rng.Uint32())
		if rng.IntN(2) == 0 {
			m.Scales[i] = byte(100 + rng.IntN(20))
		}
	}
	return m
}

// decode gives the numbers of an FP4 matrix, value·step in f64.
func (m *FP4) decode() (w, steps []float64) {
	f, _ := FormatByName(m.Format)
	table := stepsOf(m.Format, m.Global, m.Convention)
	for r := range m.Rows {
		for c := range m.Cols {
			code := m.Codes[r*ceilDiv(m.Cols, 2)+c/2] >> (c % 2 * 4) & 15
			step := float64(table[m.Scales[r*ceilDiv(m.Cols, f.Group)+c/f.Group]])
			w, steps = append(w, float64(e2m1Values[code])*step), append(steps, step)
		}
	}
	return w, steps
}

// The choice is the best of all codebooks of its kind, tried on every element with
// plain loops, and says what the others would have cost.
func TestChooseRecodingBruteForce(t *testing.T) {
	masks := allBooks()
	rng := rand.New(rand.NewPCG(8, 8))
	for trial, specs := range slices.Concat(fp4Specs(), fp4Specs()) {
		m := randomFP4(rng, specs[0], 2, 45)
		var importance []float32
		if trial%2 == 1 {
			for range m.Cols {
				importance = append(importance, float32(math.Exp(2*rng.NormFloat64())))
			}
		}
		w, steps := m.decode()
		errs, biases, whole := map[uint16]float64{}, map[uint16]float64{}, 0.0
		for _, mask := range masks {
			for i, x := range w {
				if math.Abs(x) > math.MaxFloat32 || x != x {
					continue
				}
				f := 1.0
				if importance != nil {
					f = float64(importance[i%m.Cols])
				}
				if mask == masks[0] {
					whole += f * x * x
				}
				near := nearestTo(mask, x, steps[i]) * steps[i]
				errs[mask] += f * (near - x) * (near - x)
				biases[mask] += near - x
			}
		}
		l2, sym := math.Inf(1), math.Inf(1)
		for _, mask := range masks {
			l2 = min(l2, errs[mask])
			if mirrorBook(mask) == mask {
				sym = min(sym, errs[mask])
			}
		}
		for _, method := range []string{"l2", "sym", "asym", "mirror"} {
			got, err := Best().ChooseRecoding(m, method, importance)
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%v, %s, weighed %v: %v", specs[0], method, importance != nil, Codebook(got.Codebook))
			if !close64(got.L2, l2/whole, 1e-9) || !close64(got.Sym, sym/whole, 1e-9) {
				t.Errorf("%s: errors %v and %v, want %v and %v", what, got.L2, got.Sym, l2/whole, sym/whole)
			}
			mask, symmetric := got.Codebook, mirrorBook(got.Codebook) == got.Codebook
			switch method {
			case "l2":
				if !(errs[mask] <= l2*(1+1e-9)) {
					t.Errorf("%s: error %v, the best %v", what, errs[mask], l2)
				}
			case "sym":
				if !symmetric || !(errs[mask] <= sym*(1+1e-9)) {
					t.Errorf("%s: error %v, the best %v", what, errs[mask], sym)
				}
			case "mirror":
				asym, err := Best().ChooseRecoding(m, "asym", importance)
				if err != nil {
					t.Fatal(err)
				}
				values, mirrored := Codebook(asym.Codebook), Codebook(mask)
				for i, v := range values {
					if mirrored[3-i] != 0-v {
						t.Errorf("%s is no mirror image of %v", what, values)
					}
				}
			default:
				checkAsym(t, what, mask, masks, errs, biases, sym)
			}
		}
	}
}

// nearestTo is the value of a codebook that a number becomes, by plain loops: of ±v that
// of a zero's sign.
func nearestTo(mask uint16, x, step float64) (near float64) {
	values := nearestFirst(mask)
	if x == 0 && math.Signbit(x) {
		slices.SortStableFunc(values, func(a, b float64) int {
			if math.Abs(a) != math.Abs(b) {
				return 0
			}
			return int(math.Copysign(1, a-b))
		})
	}
	least := math.Inf(1)
	for _, v := range values {
		if d := math.Abs(x - v*step); d < least {
			near, least = v, d
		}
	}
	return near
}

// nearestFirst are the values of a codebook, those with smaller magnitudes first, of ±v
// the positive one.
func nearestFirst(mask uint16) (values []float64) {
	for _, v := range Codebook(mask) {
		values = append(values, float64(v))
	}
	slices.SortFunc(values, func(a, b float64) int {
		if d := math.Abs(a) - math.Abs(b); d != 0 {
			return int(math.Copysign(1, d))
		}
		return int(math.Copysign(1, b-a))
	})
	return values
}

// checkAsym holds a choice of asym against its definition.
func checkAsym(t *testing.T, what string, mask uint16, masks []uint16, errs, biases map[uint16]float64, sym float64) {
	t.Helper()
	if mirrorBook(mask) == mask {
		t.Errorf("%s is its own mirror image", what)
	}
	most, least, some := math.Inf(-1), math.Inf(1), false
	for _, m := range masks {
		if mirrorBook(m) == m {
			continue
		}
		off := math.Abs(errs[m] - sym)
		least = min(least, off)
		if off <= asymBand*sym*(1-1e-9) {
			some, most = true, max(most, biases[m])
		}
	}
	off := math.Abs(errs[mask] - sym)
	switch {
	case some && !(off <= asymBand*sym*(1+1e-9)):
		t.Errorf("%s: the error is off by %v of %v", what, off, sym)
	case some && biases[mask] < most-1e-9*math.Abs(most):
		t.Errorf("%s: bias %v, the largest %v", what, biases[mask], most)
	case !some && off > least*(1+1e-9):
		t.Errorf("%s: the error is off by %v, the least is %v", what, off, least)
	}
}

// Recoding is what a pass of two bits over the decoded matrix gives, where round to
// nearest finds the same scales again: codes, choice and record.
func TestRecodeIsThePass(t *testing.T) {
	for i, specs := range fp4Specs() {
		source := heavyTailed(9, 300+i, uint64(i))
		specs[0].Global = 0x1p-9 // a power of two, with which no product is rounded
		if specs[0].Format == "mxfp4" {
			specs[0].Global = 0
		}
		if c := specs[0].Convention; specs[0].Global != 0 && (c == CT || c == CT32) {
			specs[0].Global = 0x1p9
		}
		m := fp4Of(t, source, specs[0])
		f, _ := FormatByName(m.Format)
		for r := range m.Rows { // a 6 in each block, by which round to nearest finds its scale
			for c := 0; c < m.Cols; c += f.Group {
				m.Codes[r*ceilDiv(m.Cols, 2)+c/2] |= 7
			}
		}
		dense := make([]float32, m.Rows*m.Cols)
		if err := Dequantize(dense, specs[0], m.Rows, m.Cols, m.Codes, m.Scales, nil, m.Global); err != nil {
			t.Fatal(err)
		}
		for i := range dense { // decoding gives zeros no sign, and recoding goes by it
			if m.Codes[i/m.Cols*ceilDiv(m.Cols, 2)+i%m.Cols/2]>>(i%m.Cols%2*4)&15 == 8 {
				dense[i] = float32(math.Copysign(0, -1))
			}
		}
		decoded := f32Matrix(m.Rows, m.Cols, dense)
		for _, method := range codebookMethods {
			for _, importance := range [][]float32{nil, testImportance(m.Cols)} {
				spec := specs[1]
				spec.Method, spec.Global = method, specs[0].Global
				amax, _ := Best().AbsMax(decoded)
				want, err := Best().ChooseBook(spec, StoredOperand(decoded), amax, importance)
				if err != nil {
					t.Fatal(err)
				}
				r, err := Best().ChooseRecoding(m, method, importance)
				if err != nil || r.Codebook != want.Codebook || !close64(r.L2, want.L2, 1e-12) || !close64(r.Sym, want.Sym, 1e-12) {
					t.Errorf("%v: %+v (%v), of the decoded matrix %+v", spec, r, err, want)
				}
				spec.Use(r)
				b := quantizeBlocks(t, Best(), decoded, spec, 0)
				if !bytes.Equal(b.Scales, m.Scales) {
					t.Fatalf("%v: other scales", spec)
				}
				codes := make([]byte, len(m.Codes))
				if err := UnpackCode2(codes, b.Codes, m.Rows, m.Cols, r.Codebook); err != nil {
					t.Fatal(err)
				}
				for _, inPlace := range []bool{false, true} {
					from := m
					from.Codes = slices.Clone(m.Codes)
					dst := make([]byte, len(m.Codes))
					if inPlace {
						dst = from.Codes
					}
					tap, err := Best().Recode(dst, from, r)
					if err != nil || !bytes.Equal(dst, codes) {
						t.Fatalf("%v, in place %v: other codes (%v): %s", spec, inPlace, err, firstDiff(dst, codes))
					}
					wantTap := b.tap
					wantTap.ScaleHigh, wantTap.ScaleLow = 0, 0
					sameRecoding(t, fmt.Sprint(spec), tap, wantTap, 0)
				}
			}
		}
	}
}

// sameRecoding wants the same counts, and the same sums but for their order, which
// decides the sign of as many rows as are unclear.
func sameRecoding(t *testing.T, what string, got, want Tap, unclear int64) {
	t.Helper()
	near := func(name string, got *float64, want float64, scale float64) {
		if math.Abs(*got-want) > 1e-12*scale {
			t.Errorf("%s: %s is %v, want %v", what, name, *got, want)
		}
		*got = want
	}
	near("Σw²", &got.SumW2, want.SumW2, want.SumW2)
	near("Σq²", &got.SumQ2, want.SumQ2, want.SumW2)
	near("Σwq", &got.SumWQ, want.SumWQ, want.SumW2)
	near("Σ(w−q)²", &got.SumE2, want.SumE2, want.SumW2)
	near("deep mass", &got.DeepL2, want.DeepL2, want.SumW2)
	near("subnormal mass", &got.SubnormalClippedL2, want.SubnormalClippedL2, want.SumW2)
	near("Σ scale", &got.ScaleSum, want.ScaleSum, want.ScaleSum)
	near("Σ(q−w)", &got.Bias.SumErr, want.Bias.SumErr, want.Bias.SumAbsW)
	near("Σ|w|", &got.Bias.SumAbsW, want.Bias.SumAbsW, want.Bias.SumAbsW)
	near("row bias", &got.Bias.SumRow2, want.Bias.SumRow2, 1)
	near("largest row bias", &got.Bias.RowMax, want.Bias.RowMax, 1)
	if off := got.Bias.Positive - want.Bias.Positive; max(off, -off) <= unclear {
		got.Bias.Positive = want.Bias.Positive
	}
	if got != want {
		t.Errorf("%s: record\n%+v, want\n%+v", what, got, want)
	}
}

// Any codes and scales, NaN and those that decode beyond f32 among them: the record is
// that of plain loops, whole or in chunks.
func TestRecodeRecord(t *testing.T) {
	masks := allBooks()
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 5))
		specs := fp4Specs()[seed%uint64(len(fp4Specs()))]
		m := randomFP4(rng, specs[0], 1+rng.IntN(6), 1+rng.IntN(200))
		r := Recoding{Codebook: masks[rng.IntN(len(masks))], L2: 0.1, Sym: 0.2}
		dst := make([]byte, len(m.Codes))
		got, err := Best().Recode(dst, m, r)
		if err != nil {
			t.Fatal(err)
		}
		want, unclear := recodePlain(&m, dst, r)
		what := fmt.Sprintf("seed %d, %v by %v", seed, specs[0], Codebook(r.Codebook))
		sameRecoding(t, what, got, want, unclear)
		p, err := Best().BeginRecode(m, r)
		if err != nil {
			t.Fatal(err)
		}
		codes, scales, again := m.Codes, m.Scales, make([]byte, len(m.Codes))
		for range m.Rows {
			n := len(m.Codes) / m.Rows
			at := len(m.Codes) - len(codes)
			if err := p.Rows(again[at:at+n], codes[:n], scales[:len(m.Scales)/m.Rows]); err != nil {
				t.Fatal(err)
			}
			codes, scales = codes[n:], scales[len(m.Scales)/m.Rows:]
		}
		if tap, err := p.Finish(); err != nil || tap != got || !bytes.Equal(again, dst) {
			t.Errorf("%s: in rows %+v (%v), want %+v", what, tap, err, got)
		}
		if got.SumW2 > 0 && got.IdentityGap() > 1e-12 {
			t.Errorf("%s: off the identity by %v", what, got.IdentityGap())
		}
	}
}

// recodePlain checks recoded codes element by element and makes their record. The
// errors of unclear rows cancel but for what f64 rounds.
func recodePlain(m *FP4, dst []byte, r Recoding) (t Tap, unclear int64) {
	f, _ := FormatByName(m.Format)
	w, steps := m.decode()
	t = Tap{HasBias: true, Bias: Bias{Codebook: r.Codebook, L2: r.L2, Sym: r.Sym}}
	reach := 0.0
	for _, v := range Codebook(r.Codebook) {
		reach = max(reach, math.Abs(float64(v)))
	}
	if f.Scale == "e4m3" {
		if t.GlobalScale = float64(m.Global); m.Convention == CT || m.Convention == CT32 {
			t.GlobalScale = 1 / float64(m.Global)
		}
	}
	for row := range m.Rows {
		var err, abs, moved float64
		for b := range ceilDiv(m.Cols, f.Group) {
			scale := m.Scales[row*ceilDiv(m.Cols, f.Group)+b]
			subnormal := f.Scale == "e4m3" && scale&127 < 8
			t.Blocks++
			t.Multipliers[0]++
			amax, mass := 0.0, 0.0
			var step float64
			for c := b * f.Group; c < min((b+1)*f.Group, m.Cols); c++ {
				at := row*ceilDiv(m.Cols, 2) + c/2
				code, to := m.Codes[at]>>(c%2*4)&15, dst[at]>>(c%2*4)&15
				v := float64(e2m1Values[code])
				near := nearestTo(r.Codebook, v, 1)
				if e2m1Values[to] != float32(near) || to == 8 {
					t.Elements += 1 << 40 // which no record has
				}
				t.Elements++
				x := w[row*m.Cols+c]
				step = steps[row*m.Cols+c]
				switch {
				case step != step:
					t.NaN++
					continue
				case math.Abs(x) > math.MaxFloat32:
					t.Inf++
					continue
				}
				q := near * step
				d := q - x
				t.SumW2 += x * x
				t.SumQ2 += q * q
				t.SumWQ += x * q
				t.SumE2 += d * d
				t.MaxAbsErr, t.Amax = max(t.MaxAbsErr, math.Abs(d)), max(t.Amax, math.Abs(x))
				t.Codes[to]++
				bin := 0
				if step != 0 {
					bin = min(int(16*math.Abs(near-v)), 16)
				}
				t.Errors[bin]++
				err, abs, moved = err+d, abs+math.Abs(x), moved+math.Abs(d)
				amax = max(amax, math.Abs(x))
				if math.Abs(v) > reach {
					mass += x * x
				}
			}
			if amax == 0 {
				t.ZeroBlocks++
				continue
			}
			stored := math.Abs(float64(E4M3ToF32(scale)))
			bin := int(scale&127) / 4
			if f.Scale == "e8m0" {
				stored = math.Ldexp(1, int(scale)-127)
				bin = min(max(int(scale)-127+24, 0), 31)
			}
			if t.ScaleCount == 0 {
				t.ScaleMin = stored
			}
			t.ScaleMin, t.ScaleMax = min(t.ScaleMin, stored), max(t.ScaleMax, stored)
			t.ScaleSum += stored
			t.ScaleCount++
			t.Scales[bin]++
			if subnormal {
				t.ScaleSubnormal++
			}
			if limit := reach * math.Abs(step); amax > limit {
				t.Depth[int((1-limit/amax)*20)]++
				if subnormal {
					t.SubnormalClipped++
					t.SubnormalClippedL2 += mass
				} else {
					t.Deep++
					t.DeepL2 += mass
				}
			}
		}
		t.Bias.SumErr += err
		t.Bias.SumAbsW += abs
		if abs == 0 {
			continue
		}
		t.Bias.Rows++
		if err > 0 {
			t.Bias.Positive++
		}
		if moved > 0 && math.Abs(err) <= 1e-12*abs {
			unclear++
		}
		t.Bias.SumRow2 += err / abs * (err / abs)
		t.Bias.RowMax = max(t.Bias.RowMax, math.Abs(err/abs))
	}
	return t, unclear
}

func TestRecodeRefused(t *testing.T) {
	good := FP4{Format: "nvfp4", Rows: 2, Cols: 20, Codes: make([]byte, 20), Scales: make([]byte, 4), Global: 1}
	r := Recoding{Codebook: 15}
	for says, change := range map[string]func(*FP4){
		`codes of "int4-g32"`:                       func(m *FP4) { m.Format = "int4-g32" },
		"convention own":                            func(m *FP4) { m.Convention = Own },
		"19 bytes of codes for 2×20, want 20":       func(m *FP4) { m.Codes = m.Codes[1:] },
		"3 scales for 2×20, want 4":                 func(m *FP4) { m.Scales = m.Scales[1:] },
		"no global scale":                           func(m *FP4) { m.Global = 0 },
		"global scale NaN":                          func(m *FP4) { m.Global = float32(math.NaN()) },
		"global scale +Inf":                         func(m *FP4) { m.Global = float32(math.Inf(1)) },
		"-1×20":                                     func(m *FP4) { m.Rows = -1 },
		"2×-20":                                     func(m *FP4) { m.Cols = -20 },
		"20 bytes of codes for 9223372036854775807": func(m *FP4) { m.Rows = math.MaxInt },
	} {
		m := good
		change(&m)
		if _, err := Best().ChooseRecoding(m, "l2", nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("choose: %v, want %q", err, says)
		}
		if _, err := Best().Recode(make([]byte, len(m.Codes)), m, r); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("recode: %v, want %q", err, says)
		}
	}
	if _, err := Best().ChooseRecoding(good, "rtn", nil); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "l2, sym, asym, mirror") {
		t.Errorf("a method: %v", err)
	}
	if _, err := Best().ChooseRecoding(good, "", make([]float32, 19)); !errors.Is(err, ErrShape) {
		t.Errorf("importance: %v", err)
	}
	if _, err := Best().Recode(make([]byte, 19), good, r); !errors.Is(err, ErrShape) {
		t.Errorf("too little room: %v", err)
	}
	if _, err := Best().Recode(make([]byte, 20), good, Recoding{}); !errors.Is(err, ErrNeedsCodebook) {
		t.Errorf("no codebook: %v", err)
	}
	if _, err := Best().Recode(make([]byte, 20), good, Recoding{Codebook: 1}); !errors.Is(err, ErrRange) {
		t.Errorf("no codebook: %v", err)
	}
	for _, m := range []FP4{{Format: "mxfp4", Convention: CT32, Rows: 3}, {Format: "mxfp4", Convention: CT32, Cols: 3}} {
		got, err := Best().ChooseRecoding(m, "l2", make([]float32, m.Cols))
		if err != nil || got.L2 != 0 || got.Sym != 0 || got.Codebook == 0 {
			t.Errorf("of nothing: %+v, %v", got, err)
		}
		if tap, err := Best().Recode(nil, m, got); err != nil || tap.Elements != 0 || tap.Bias.Value() != 0 {
			t.Errorf("of nothing: %+v, %v", tap, err)
		}
	}
}

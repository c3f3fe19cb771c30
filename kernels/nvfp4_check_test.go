package kernels

import (
	"math"
	"testing"
)

func close64(a, b, rel float64) bool {
	return a == b || math.Abs(a-b) <= rel*max(math.Abs(a), math.Abs(b))
}

// checkTap compares a tap record with what plain loops find in the decoded
// values.
func checkTap(t testing.TB, q quantized, decoded []float32) {
	t.Helper()
	m, tap := q.m, q.tap
	w := make([]float32, len(decoded))
	if err := DecodeFloats(w, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	var want Tap
	rowE2, rowW2 := make([]float64, m.Rows), make([]float64, m.Rows)
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
		want.Codes[q.Codes[i/m.Cols*ceilDiv(m.Cols, 2)+i%m.Cols/2]>>(i%m.Cols%2*4)&15]++
	}
	if tap.Elements != want.Elements || tap.NaN != want.NaN || tap.Inf != want.Inf || tap.Blocks != int64(len(q.Scales)) {
		t.Errorf("counts %d elements %d NaN %d Inf %d blocks, want %d %d %d %d", tap.Elements, tap.NaN, tap.Inf, tap.Blocks,
			want.Elements, want.NaN, want.Inf, len(q.Scales))
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"SumW2", tap.SumW2, want.SumW2}, {"SumQ2", tap.SumQ2, want.SumQ2}, {"SumWQ", tap.SumWQ, want.SumWQ},
		{"SumE2", tap.SumE2, want.SumE2}, {"MaxAbsErr", tap.MaxAbsErr, want.MaxAbsErr}, {"Amax", tap.Amax, want.Amax},
	} {
		if !close64(c.got, c.want, 1e-6) {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
	for r := range rowE2 {
		if !close64(q.RowE2[r], rowE2[r], 1e-6) || !close64(q.RowW2[r], rowW2[r], 1e-6) {
			t.Errorf("row %d: %v of %v, want %v of %v", r, q.RowE2[r], q.RowW2[r], rowE2[r], rowW2[r])
		}
	}
	if tap.Codes != want.Codes {
		t.Errorf("use of codes %v, want %v", tap.Codes, want.Codes)
	}
	// w−q is rounded to f32 before it is squared and q is an f32, so the
	// identity holds to a few 1e-7 of rel2 where nothing is clipped to less
	// than half its size.
	if gap := tap.IdentityGap(); gap > 1e-7*max(1, tap.Rel2()) {
		t.Errorf("identity gap %v at rel2 %v", gap, tap.Rel2())
	}
	checkCounts(t, tap)
}

// checkCounts holds for every record, whatever the input.
func checkCounts(t testing.TB, tap Tap) {
	t.Helper()
	sum := func(h []int64) (n int64) {
		for _, v := range h {
			if v < 0 {
				t.Errorf("a negative count in %v", h)
			}
			n += v
		}
		return n
	}
	finite := tap.Elements - tap.NaN - tap.Inf
	clipped := tap.Shallow + tap.Deep + tap.SubnormalClipped
	for _, c := range []struct {
		name      string
		got, want int64
	}{
		{"codes", sum(tap.Codes[:]), finite},
		{"errors", sum(tap.Errors[:]), finite},
		{"multipliers", sum(tap.Multipliers[:]), tap.Blocks},
		{"scales", sum(tap.Scales[:]), tap.ScaleCount},
		{"scales and zero blocks", tap.ScaleCount + tap.ZeroBlocks, tap.Blocks},
		{"depths", sum(tap.Depth[:]), clipped},
	} {
		if c.got != c.want {
			t.Errorf("%s sum to %d, want %d", c.name, c.got, c.want)
		}
	}
	if clipped > tap.Blocks {
		t.Errorf("%d clipped of %d blocks", clipped, tap.Blocks)
	}
	if l2 := tap.ShallowL2 + tap.DeepL2 + tap.SubnormalClippedL2; l2 > tap.SumW2*(1+1e-9) {
		t.Errorf("clipped mass %v of %v", l2, tap.SumW2)
	}
	for _, v := range []float64{tap.SumW2, tap.SumQ2, tap.SumWQ, tap.SumE2, tap.MaxAbsErr, tap.Amax, tap.GlobalScale, tap.ScaleSum} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("a figure is %v in %+v", v, tap)
			break
		}
	}
}

package views

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/sessions"
)

func TestScaleLabels(t *testing.T) {
	for _, c := range []struct {
		scheme string
		want   map[int]string
	}{
		// Half octaves of E4M3: bin b begins at code 4·b, code 8·e is 2^(e−7).
		{"nvfp4", map[int]string{0: "0", 1: "", 2: "1/64", 12: "1/2", 14: "1", 15: "", 16: "2", 30: "256"}},
		// Octaves from 2⁻²⁴ on; the first holds what is below, the last what is above.
		{"int4-g128", map[int]string{0: "0", 1: "2⁻²³", 13: "2⁻¹¹", 18: "1/64", 23: "1/2", 24: "1", 27: "8", 31: "≥128"}},
	} {
		f, err := kernels.FormatByName(c.scheme)
		if err != nil {
			t.Fatal(err)
		}
		for bin, want := range c.want {
			if got := scaleLabel(f, bin); got != want {
				t.Errorf("%s, bin %d: %q, want %q", c.scheme, bin, got, want)
			}
		}
	}
}

// variantsOf are variants of the given names with what the methods say of them.
func variantsOf(t *testing.T, names ...string) []sessions.Variant {
	t.Helper()
	out := make([]sessions.Variant, len(names))
	for i, name := range names {
		v, err := method.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = sessions.Variant{ID: i, Name: v.Name, Scheme: v.Scheme, BitsPerWeight: v.BitsPerWeight, Multipliers: v.Multipliers, Convention: v.Spec.Convention.String()}
	}
	return out
}

func tapsOf(tap *kernels.Tap, variants []sessions.Variant) []tapOf {
	var out []tapOf
	for i := range variants {
		out = append(out, tapOf{tap, &variants[i]})
	}
	return out
}

func seriesIDs(c tensorChart) (ids []int) {
	for _, s := range c.series {
		ids = append(ids, s.Variant)
	}
	return ids
}

// Charts whose axis depends on the format show the variants that share the
// current one's, and count the others.
func TestChartsKeepUnlikeFormatsApart(t *testing.T) {
	var tap kernels.Tap
	tap.Elements, tap.ScaleCount, tap.Blocks = 160, 20, 20
	for i := range tap.Codes {
		tap.Codes[i] = 10
	}
	tap.Scales[14], tap.Scales[15] = 5, 15
	tap.Multipliers[0], tap.Multipliers[3] = 15, 5
	tap.Errors[0] = 160
	variants := variantsOf(t, "nvfp4", "nvfp4+mse", "mxfp4", "fp8-channel", "int4-g128+range", "int4-g128-sym", "nvfp4+sweep")
	taps := tapsOf(&tap, variants)
	for _, c := range []struct {
		current                     int
		scales, codes, search       []int
		scaleAt                     string // the label of bin 14
		scaleTitle, codeTitle, find string
		first, last                 string // codes
	}{
		{0, []int{0, 1, 6}, []int{0, 1, 2, 6}, []int{1}, "1", "E4M3 block scales before the global one, % of blocks", "E2M1 codes by value, % of elements", "multiples of the largest", "−6", "6"},
		{2, []int{2, 3, 4, 5}, []int{0, 1, 2, 6}, []int{1}, "2⁻¹⁰", "scales by octave, % of scales", "E2M1 codes by value, % of elements", "multiples of the largest", "−6", "6"},
		{3, []int{2, 3, 4, 5}, []int{3}, []int{1}, "2⁻¹⁰", "scales by octave, % of scales", "E4M3 codes by value, from … on, % of elements", "multiples of the largest", "−128", "128"},
		{4, []int{2, 3, 4, 5}, []int{4, 5}, []int{4}, "2⁻¹⁰", "scales by octave, % of scales", "int4 codes by number, % of elements", "share of the range", "0", "15"},
		{6, []int{0, 1, 6}, []int{0, 1, 2, 6}, []int{6}, "1", "E4M3 block scales before the global one, % of blocks", "E2M1 codes by value, % of elements", "codes off the nearest", "−6", "6"},
	} {
		name := variants[c.current].Name
		scales, codes, search := scaleChart(taps, c.current), codeChart(taps, c.current), searchChart(taps, c.current)
		if !slices.Equal(seriesIDs(scales), c.scales) || scales.others != len(taps)-len(c.scales) || scales.title != c.scaleTitle {
			t.Errorf("%s: scales of %v, %d others, %q", name, seriesIDs(scales), scales.others, scales.title)
		}
		if at := slices.Index(scales.labels, c.scaleAt); at < 0 || scales.series[0].Values[at] != 25 || scales.series[0].Values[at+1] != 75 {
			t.Errorf("%s: bin 14 is not at %q: %v %v", name, c.scaleAt, scales.labels, scales.series[0].Values)
		}
		if !slices.Equal(seriesIDs(codes), c.codes) || codes.others != len(taps)-len(c.codes) || codes.title != c.codeTitle || codes.labels[0] != c.first || codes.labels[15] != c.last {
			t.Errorf("%s: codes of %v, %d others, %q, %v", name, seriesIDs(codes), codes.others, codes.title, codes.labels)
		}
		if !slices.Equal(seriesIDs(search), c.search) || search.others != 3-len(c.search) || !strings.Contains(search.title, c.find) {
			t.Errorf("%s: searches of %v, %d others, %q", name, seriesIDs(search), search.others, search.title)
		}
	}
	// Factors of a range stand in order of size, and the whole range is the last.
	if got := searchChart(taps, 4); got.labels[0] != "0.6" || got.labels[15] != "1.0" || got.series[0].Values[15] != 75 {
		t.Errorf("ranges %v %v", got.labels, got.series[0].Values)
	}
	// Symmetric integers have a value alone, a number beside asymmetric ones.
	if got := codeChart(taps[5:6], 5); got.labels[0] != "−8" || got.labels[15] != "7" || got.title != "int4 codes by value in scales, % of elements" {
		t.Errorf("symmetric: %q %v", got.title, got.labels)
	}
	for _, c := range []struct {
		taps []tapOf
		want string
	}{
		{taps[:3], "|error| in scales, % of elements"},
		{taps[3:4], "|error| in 32 scales, the widest step, % of elements"},
		{taps, "|error| in scales (fp8: in 32), % of elements"},
	} {
		if got := errorChart(c.taps); got.title != c.want || len(got.series) != len(c.taps) {
			t.Errorf("%q of %d, want %q", got.title, len(got.series), c.want)
		}
	}
}

// A bin of E4M3 codes is named by the least magnitude in it.
func TestFP8BinsBeginWhereTheySay(t *testing.T) {
	for nibble, want := range fp8Values {
		v := float64(kernels.E4M3ToF32(byte(nibble << 4)))
		if got := powerLabel(v); got != want {
			t.Errorf("codes from %#x on: %q, want %q", nibble<<4, want, got)
		}
	}
}

func TestCodesStandByValue(t *testing.T) {
	var tap kernels.Tap
	tap.Elements = 16
	for i := range tap.Codes {
		tap.Codes[i] = int64(i)
	}
	fp4 := &sessions.Variant{Scheme: "nvfp4"}
	c := codeChart([]tapOf{{&tap, fp4}}, 0)
	want := []string{"−6", "−4", "−3", "−2", "−1.5", "−1", "−.5", "−0", "0", ".5", "1", "1.5", "2", "3", "4", "6"}
	if d := cmp.Diff(want, c.labels); d != "" {
		t.Error(d)
	}
	// Code 15 is −6, code 8 is −0, code 7 is 6.
	for at, code := range map[int]float64{0: 15, 7: 8, 8: 0, 15: 7} {
		if got := c.series[0].Values[at]; got != 100*code/16 {
			t.Errorf("%s: %v, want code %v", c.labels[at], got, code)
		}
	}
	c = codeChart([]tapOf{{&tap, fp4}, {&tap, &sessions.Variant{ID: 1, Scheme: "int4-g128"}}}, 1)
	if c.labels[15] != "15" || c.series[0].Values[15] != 100*15.0/16 || c.series[0].Variant != 1 {
		t.Errorf("mixed schemes: %v", c.labels)
	}
}

func TestMultipliersShareAnAxis(t *testing.T) {
	var tap kernels.Tap
	tap.Multipliers = [kernels.MultBins]int64{1, 3}
	c := searchChart([]tapOf{
		{&tap, &sessions.Variant{ID: 0, Multipliers: []string{"1.0", "1.1"}}},
		{&tap, &sessions.Variant{ID: 1, Multipliers: []string{"0.9", "1.0"}}},
		{&tap, &sessions.Variant{ID: 2}},
	}, 0)
	if d := cmp.Diff([]string{"0.9", "1.0", "1.1"}, c.labels); d != "" {
		t.Error(d)
	}
	if len(c.series) != 2 || !slices.Equal(c.series[0].Values, []float64{0, 25, 75}) || !slices.Equal(c.series[1].Values, []float64{25, 75, 0}) {
		t.Errorf("series %+v", c.series)
	}
	// One multiplier is no choice.
	none := &sessions.Variant{ID: 2, Multipliers: []string{"1.0"}}
	for _, v := range []*sessions.Variant{{}, none} {
		if c := searchChart([]tapOf{{&tap, v}}, 0); c.note != "no variant searches" || c.series != nil {
			t.Errorf("multipliers %q: note %q, series %v", v.Multipliers, c.note, c.series)
		}
	}
	c = searchChart([]tapOf{{&tap, none}, {&tap, &sessions.Variant{ID: 1, Multipliers: []string{"1.1", "1.2"}}}}, 2)
	if len(c.series) != 1 || c.series[0].Variant != 1 || !slices.Equal(c.labels, []string{"1.1", "1.2"}) {
		t.Errorf("beside a search: labels %q, series %+v", c.labels, c.series)
	}
}

package candidate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/layout/layouttest"
)

// Whatever way GPTQ and AWQ pack a model, it presents what its codes stand for,
// bit for bit, as a twin in f32 does: whole, by rows and in panels, with groups in
// any order.
func TestPackedCheckpoints(t *testing.T) {
	for _, c := range []struct {
		form   layouttest.Form
		scheme string
	}{
		{layouttest.Form{Bits: 4, Group: 32}, "gptq-int4-g32"},
		{layouttest.Form{Bits: 4, Group: 128, Sym: true}, "gptq-int4-g128"},
		{layouttest.Form{Bits: 4, Group: 32, V2: true, Order: true}, "gptq-int4-g32"},
		{layouttest.Form{Bits: 3, Group: 64, Order: true}, "gptq-int3-g64"},
		{layouttest.Form{Bits: 3, Group: 48}, "gptq-int3-g48"},
		{layouttest.Form{Bits: 2, Group: -1, Sym: true}, "gptq-int2-channel"},
		{layouttest.Form{Bits: 8, Group: 64, V2: true, Head: true}, "gptq-int8-g64"},
		{layouttest.Form{Bits: 8, Group: 128, Order: true, Sym: true}, "gptq-int8-g128"},
		{layouttest.Form{AWQ: true, Bits: 4, Group: 64}, "awq-int4-g64"},
		{layouttest.Form{AWQ: true, Bits: 4, Group: -1}, "awq-int4-channel"},
	} {
		t.Run(fmt.Sprintf("%+v", c.form), func(t *testing.T) {
			t.Parallel()
			packed, twin := layouttest.Demo(t, c.form)
			p, f := open(t, packed), open(t, twin)
			if len(p.Findings) != 0 {
				t.Errorf("findings %v", p.Findings)
			}
			if p.Schemes[0].Scheme != c.scheme || !strings.Contains(p.Effective, c.scheme) {
				t.Errorf("it is said to be %s, want %s", p.Effective, c.scheme)
			}
			if p.Bytes >= f.Bytes || p.BitsPerWeight >= f.BitsPerWeight || p.TokenizerID != f.TokenizerID {
				t.Errorf("%d bytes and %.2f bits, the twin %d and %.2f", p.Bytes, p.BitsPerWeight, f.Bytes, f.BitsPerWeight)
			}
			checkModules(t, p)
			compareAll(t, p, f)
			sameBits(t, "head", values(t, source(t, p), headAt), values(t, source(t, f), headAt))
		})
	}
}

// A panel holds what is stored: a matrix of codes takes no more memory than on
// disk but for its zero points, a byte each, and groups.
func TestPackedMemory(t *testing.T) {
	packed, _ := layouttest.Demo(t, layouttest.Form{Bits: 4, Group: 32, Order: true})
	c := open(t, packed)
	s := source(t, c).(*native)
	for at, part := range s.x.modules {
		if _, err := s.Weight(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		m, x := part.m, s.loaded[part.m]
		zeros := int64(len(x.mins))
		if got, most := x.size()-zeros+zeros/2, m.Bytes(); got > most || zeros == 0 {
			t.Fatalf("%s: %d bytes in memory, %d stored", m.Name, got, most)
		}
	}
}

// Rows that are gate and up of one matrix are decoded from it, one after another
// or in turn.
func TestPartsOfPackedMatrices(t *testing.T) {
	packed, _ := layouttest.Demo(t, layouttest.Form{Bits: 4, Group: 64})
	x := stored(t, open(t, packed))
	for _, part := range x.modules {
		m := part.m
		var s layout.Stored
		if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
			t.Fatal(err)
		}
		whole := make([]float32, m.Rows*m.Cols)
		if err := m.Decode(whole, &s); err != nil {
			t.Fatal(err)
		}
		all, err := x.coded(m, &s, m.Rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []int{1, 2} {
			c, err := all.part(m.Rows/2, 1, step)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, c.rows*c.cols)
			if err := kernels.Best().ExpandRows(got, c.weight().Operand, 0); err != nil {
				t.Fatal(err)
			}
			for r := range c.rows {
				sameBits(t, m.Name, got[r*c.cols:][:c.cols], whole[(1+r*step)*m.Cols:][:m.Cols])
			}
		}
		break // one shows it
	}
}

// Zero points that speak against their label: refused with what decides, and
// read when told to, as another model than by the label.
func TestPackedZeroPoints(t *testing.T) {
	form := layouttest.Form{Bits: 4, Group: 64, Sym: true, V2: true}
	packed, twin := layouttest.Demo(t, form)
	config := form.Config()
	config["checkpoint_format"] = "gptq"
	layouttest.Configure(t, packed, config)
	_, err := Open(t.Context(), packed, Options{})
	var file *checkpoint.FileError
	if !errors.As(err, &file) || !strings.Contains(err.Error(), "--zero-points v2") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v", err)
	}
	ids := map[string]bool{}
	for _, way := range []layout.ZeroPoints{layout.ZeroPointsLabelled, layout.ZeroPointsV2} {
		c, err := Open(t.Context(), packed, Options{Layout: layout.Options{ZeroPoints: way}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ids[c.Identity] = true
		if len(c.Findings) != 1 || c.Findings[0].ID != layout.Mislabelled || !strings.Contains(c.Findings[0].Message, "more modules") {
			t.Errorf("%v", c.Findings)
		}
		f := open(t, twin)
		if way == layout.ZeroPointsV2 {
			compareAll(t, c, f)
			continue
		}
		for at := range stored(t, c).modules {
			a, b := values(t, source(t, c), at), values(t, source(t, f), at)
			for i := range a {
				if b[i] != 0 && a[i] == b[i] {
					t.Fatalf("value %d of %s is %v by the label and as v2", i, at, a[i])
				}
			}
			break // one shows it
		}
	}
	if len(ids) != 2 {
		t.Errorf("one identity for two readings: %v", ids)
	}
}

// What cannot be told is refused by name.
func TestPackedRefusals(t *testing.T) {
	gptq, awq := layouttest.Form{Bits: 4, Group: 64, Sym: true}, layouttest.Form{AWQ: true, Bits: 4, Group: 64}
	dirs := map[layouttest.Form]string{}
	dirs[gptq], _ = layouttest.Demo(t, gptq)
	dirs[awq], _ = layouttest.Demo(t, awq)
	for _, c := range []struct {
		name   string
		form   layouttest.Form
		change func(map[string]any)
		words  []string
	}{
		{"marlin", gptq, func(c map[string]any) { c["checkpoint_format"] = "marlin" }, []string{"marlin", "GPTQ checkpoint"}},
		{"is_marlin_format", gptq, func(c map[string]any) { c["is_marlin_format"] = true }, []string{"marlin"}},
		{"no bits", gptq, func(c map[string]any) { delete(c, "bits") }, []string{"how many bits"}},
		{"other bits", gptq, func(c map[string]any) { c["bits"] = 8 }, []string{"qweight is [48 128], want [96 128]", "at 8 bits"}},
		{"5 bits", gptq, func(c map[string]any) { c["bits"] = 5 }, []string{"5 bits", "known: 2, 3, 4, 8"}},
		{"other groups", gptq, func(c map[string]any) { c["group_size"] = 32 }, []string{"scales is [6 128], want [12 128]"}},
		{"planar", gptq, func(c map[string]any) { c["checkpoint_format"] = "gptq_p" }, []string{"gptq_p", "known: gptq, gptq_v2"}},
		{"gemv", awq, func(c map[string]any) { c["version"] = "gemv_fast" }, []string{"gemv_fast", "known: gemm, gemv"}},
		{"AWQ as GPTQ", awq, func(c map[string]any) { c["quant_method"] = "gptq" }, []string{"as AWQ stores it"}},
		{"GPTQ as AWQ", gptq, func(c map[string]any) { c["quant_method"] = "awq"; delete(c, "checkpoint_format") }, []string{"as GPTQ stores it"}},
		{"another method", gptq, func(c map[string]any) { c["quant_method"] = "other" }, []string{`"other"`, "known: gptq, awq"}},
	} {
		config := c.form.Config()
		c.change(config)
		layouttest.Configure(t, dirs[c.form], config)
		_, err := Open(t.Context(), dirs[c.form], Options{})
		if err == nil || !strings.Contains(err.Error(), "_proj.q") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in %v", c.name, w, err)
			}
		}
	}
}

package candidate

import (
	"slices"
	"testing"

	"quantscope/analysis/model"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/method"
)

// Every scheme in every layout that can be exported presents what the layout's
// own formula decodes, bit for bit, and a variant on the fly presents what its
// export does. What is not quantized is the source's.
func TestExportsAndVariants(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	for _, lay := range export.Layouts() {
		for _, format := range export.Formats(lay) {
			t.Run(lay+"/"+format, func(t *testing.T) {
				t.Parallel()
				targets, want := "re:model.layers.[01].", 7+4+16*3+3
				if lay == export.ModelOpt && format == "fp8-block128" { // of whole tiles alone
					targets, want = "model.layers.1.mlp.experts.*", 16*3
				}
				c := open(t, exported(t, x.ck, x.top, targets, lay, format))
				if len(c.Findings) != 0 {
					t.Errorf("findings %v", c.Findings)
				}
				if n := checkModules(t, c); n != want {
					t.Errorf("%d quantized matrices, want %d", n, want)
				}
				v, err := method.Parse(format)
				if err != nil {
					t.Fatal(err)
				}
				conv, err := export.DefaultConvention(lay, format)
				if err != nil {
					t.Fatal(err)
				}
				made := mustParse(t, ref, format+"@"+targets, Options{})
				asMade := lay != export.CompressedTensors && (lay == export.Own || !v.NeedsMatrix()) // FP4's layouts have four bits for two
				if made.BitsPerWeight == 0 || conv == v.Spec.Convention && asMade && made.Bytes != c.Bytes {
					t.Errorf("%d bytes made, %d exported", made.Bytes, c.Bytes)
				}
				if conv != v.Spec.Convention { // the layout's own tools reckon differently
					return
				}
				compareAll(t, made, c)
			})
		}
	}
}

// checkModules compares every quantized matrix with its module.
func checkModules(t *testing.T, c *Candidate) int {
	t.Helper()
	x, s := stored(t, c), source(t, c)
	for at, part := range x.modules {
		whole := make([]float32, part.m.Rows*part.m.Cols)
		var read layout.Stored
		if err := part.m.Dequantize(t.Context(), whole, 0, &read); err != nil {
			t.Fatal(err)
		}
		got := values(t, s, at)
		for r := range part.rows {
			sameBits(t, part.m.Name, got[r*part.m.Cols:][:part.m.Cols], whole[(part.first+r*part.step)*part.m.Cols:][:part.m.Cols])
		}
		rows := []int32{int32(part.m.Rows - 1), 0, int32(part.m.Rows / 2)}
		if part.step > 1 || part.rows != part.m.Rows {
			continue
		}
		some := make([]float32, len(rows)*part.m.Cols)
		if err := s.Rows(t.Context(), at, rows, some); err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			sameBits(t, part.m.Name, some[i*part.m.Cols:][:part.m.Cols], whole[int(r)*part.m.Cols:][:part.m.Cols])
		}
	}
	return len(x.modules)
}

// compareAll wants two candidates to present the same values everywhere.
func compareAll(t *testing.T, a, b *Candidate) {
	t.Helper()
	sa, sb := source(t, a), source(t, b)
	for _, n := range needs(a.Arch) {
		if n.rows == 0 {
			x, err := sa.Vector(t.Context(), n.Place, n.name)
			if err != nil {
				t.Fatal(err)
			}
			y, err := sb.Vector(t.Context(), n.Place, n.name)
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, n.Place.String(), x, y)
			continue
		}
		sameBits(t, n.Place.String(), values(t, sa, n.Place), values(t, sb, n.Place))
	}
}

// The default targets of a variant are those of an export, second-level scales
// over the MTP layer's matrices and all; searches too.
func TestDefaultTargets(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	for _, name := range []string{"nvfp4", "nvfp4+mse"} {
		c := open(t, exported(t, x.ck, x.top, "", export.ModelOpt, name))
		compareAll(t, mustParse(t, ref, name, Options{}), c)
		compareAll(t, mustParse(t, ref, name, Options{Mem: 1 << 30, Threads: 1}), c)
	}
	c := open(t, exported(t, x.ck, x.top, "", export.Own, "int4-g128+range"))
	compareAll(t, mustParse(t, ref, "int4-g128+range", Options{Mem: 100_000}), c)
}

// Codes stay between passes as far as the memory goes, that of all variants of a
// reference together, and give the same again.
func TestKeptCodes(t *testing.T) {
	const mem = 1_500_000
	ref := open(t, "demo")
	c, other := mustParse(t, ref, "nvfp4", Options{Mem: mem}), mustParse(t, ref, "mxfp4", Options{Mem: mem})
	again := mustParse(t, open(t, "demo"), "nvfp4", Options{Mem: -1})
	compareAll(t, c, again)
	compareAll(t, other, other)
	kept, jobs, bytes := 0, 0, int64(0)
	for _, x := range []*Candidate{c, other} {
		for _, j := range source(t, x).(*overlay).m.jobs {
			jobs++
			if j.kept != nil {
				kept++
				bytes += j.kept.size()
			}
		}
	}
	if kept == 0 || kept == jobs || bytes != ref.codes.held || bytes > mem || bytes < mem-10_000 {
		t.Errorf("%d of %d kept, %d bytes, %d counted", kept, jobs, bytes, ref.codes.held)
	}
	compareAll(t, c, again)
	for _, j := range source(t, again).(*overlay).m.jobs {
		if j.kept != nil {
			t.Fatal("codes stay without memory for them")
		}
	}
}

// Origins say what two candidates have in common, and nothing else.
func TestOrigins(t *testing.T) {
	ref := open(t, "demo")
	experts := mustParse(t, ref, "nvfp4", Options{})
	first := mustParse(t, ref, "fp8@model.layers.0.*", Options{})
	head := mustParse(t, ref, "fp8@lm_head*", Options{})
	layers := func(c *Candidate) []int {
		var same []int
		a, b := source(t, ref), source(t, c)
		for i := -1; i < len(ref.Arch.Layers); i++ {
			if a.LayerOrigin(i) == b.LayerOrigin(i) {
				same = append(same, i)
			}
		}
		return same
	}
	for _, c := range []struct {
		c    *Candidate
		same []int
	}{
		{mustParse(t, ref, "ref", Options{}), []int{-1, 0, 1, 2, 3, 4}},
		{experts, []int{-1, 0}},
		{first, []int{-1, 1, 2, 3, 4}},
		{head, []int{-1, 0, 1, 2, 3, 4}},
		{mustParse(t, ref, "fp8@all", Options{}), nil},
		{open(t, "demo"), nil},
	} {
		if got := layers(c.c); !slices.Equal(got, c.same) {
			t.Errorf("%s shares layers %v, want %v", c.c.Label, got, c.same)
		}
	}
	if source(t, ref).WeightOrigin(headAt) == source(t, head).WeightOrigin(headAt) || source(t, ref).WeightOrigin(embeddingAt) != source(t, head).WeightOrigin(embeddingAt) {
		t.Error("only the head changes")
	}
	if source(t, experts).LayerOrigin(2) != source(t, experts).LayerOrigin(2) {
		t.Error("two sources of one candidate differ")
	}
	var _ model.Origins = source(t, ref)
}

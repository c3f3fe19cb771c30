package gguf

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/kernels"
)

// drawOddValue is any value of a type that metadata have, most of them of no use.
func drawOddValue(t *rapid.T) Value {
	n := rapid.SampledFrom([]int64{0, 1, 2, 3, 4, 5, 16, 64, 127, 1 << 12, 1 << 14, 1 << 20, 1 << 30, 1<<31 - 1, -1}).Draw(t, "n")
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return Value{Type: Uint32, V: uint64(uint32(n))}
	case 1:
		return Value{Type: Uint64, V: uint64(n)}
	case 2:
		return Value{Type: Int32, V: n}
	case 3:
		return Value{Type: Float32, V: rapid.SampledFrom([]float32{0, 1, -1, 1e-6, 1e30, float32(math.Inf(1)), float32(math.NaN())}).Draw(t, "x")}
	case 4:
		return Value{Type: Array, Elem: Int32, List: rapid.SliceOfN(rapid.SampledFrom([]int64{0, 1, 2, 4, 16, 128, 1 << 30, -1}), 0, 6).Draw(t, "list")}
	case 5:
		return Value{Type: Array, Elem: Bool, List: rapid.SliceOfN(rapid.Bool(), 0, 6).Draw(t, "flags")}
	}
	return Value{Type: String, V: rapid.SampledFrom([]string{"", "yarn", "linear", "qwen35"}).Draw(t, "word")}
}

// Whatever keys say and whichever tensors are missing, a file makes a model whose
// weights can be read, or is refused in one line.
func TestFamiliesThatAreDamaged(t *testing.T) {
	files := map[string]*File{}
	for _, f := range families {
		files[f.name] = open(t, filepath.Join("testdata", "families", f.name+".gguf"))
	}
	rapid.Check(t, func(rt *rapid.T) {
		whole := files[rapid.SampledFrom(families).Draw(rt, "family").name]
		f := &File{Path: whole.Path, Parts: whole.Parts, Keys: slices.Clone(whole.Keys), Metadata: map[string]Value{}, byName: map[string]int{}, values: whole.values}
		for k, v := range whole.Metadata {
			f.Metadata[k] = v
		}
		for range rapid.IntRange(0, 2).Draw(rt, "keys") {
			key := rapid.SampledFrom(whole.Keys).Draw(rt, "key")
			if !strings.HasPrefix(key, "general.") {
				f.Metadata[key] = drawOddValue(rt)
			}
		}
		lost := rapid.IntRange(-len(whole.Tensors), len(whole.Tensors)-1).Draw(rt, "lost")
		for i := range whole.Tensors {
			x := whole.Tensors[i]
			if i == lost {
				continue
			}
			if -i-1 == lost && len(x.Shape) > 1 { // the same bytes in another shape
				x.Shape = slices.Clone(x.Shape)
				slices.Reverse(x.Shape)
			}
			f.byName[x.Name] = len(f.Tensors)
			f.Tensors = append(f.Tensors, x)
		}
		m, err := NewModel(f)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				rt.Fatalf("%q is more than a line", err)
			}
			return
		}
		for i := range m.Weights {
			w := &m.Weights[i]
			if w.Vector {
				if v, err := m.ReadVector(rt.Context(), w); err == nil && len(v) != w.Cols {
					rt.Fatalf("%s: %d values", w.Name, len(v))
				}
				continue
			}
			l, err := m.Load(rt.Context(), w, kernels.Best(), make([]byte, w.Bytes()))
			if err != nil {
				rt.Fatal(err)
			}
			if err := kernels.Best().ExpandRows(make([]float32, w.Rows*w.Cols), l.Operand(), 0); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

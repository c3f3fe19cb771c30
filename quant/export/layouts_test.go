package export

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/recipe"
)

// content is the bytes of a stored tensor.
func content(t testing.TB, ck *checkpoint.Checkpoint, name string) ([]byte, *checkpoint.Tensor) {
	t.Helper()
	x, ok := ck.Lookup(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	raw := make([]byte, x.Size)
	if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
		t.Fatal(err)
	}
	return raw, x
}

// wordNibble is value i of a row of 32-bit words with eight values each.
func wordNibble(row []byte, i int) byte {
	return byte(binary.LittleEndian.Uint32(row[i/8*4:]) >> (i % 8 * 4) & 15)
}

// checkField compares a stored field with what the kernels gave for the whole
// matrix.
func checkField(t *testing.T, p *Plan, matrix int, field *Tensor, raw []byte, out *prepared) {
	t.Helper()
	m, f := &p.Matrices[matrix], p.storeOf(matrix).format
	name := field.Name
	scales, err := f.Scales(m.Rows, m.Cols)
	if err != nil {
		t.Fatal(err)
	}
	switch field.Field {
	case Codes:
		if p.storeOf(matrix).scheme.as != "" {
			checkUnpacked(t, m.Rows, m.Cols, name, raw, out)
			return
		}
		if field.DType != checkpoint.I32 {
			if !slices.Equal(raw, out.Codes) {
				t.Errorf("%s is not what was quantized", name)
			}
			return
		}
		stride, codes := len(raw)/m.Rows, len(out.Codes)/m.Rows
		for r := range m.Rows {
			for i := range stride * 2 {
				want := byte(0)
				if i < m.Cols {
					want = out.Codes[r*codes+i/2] >> (i % 2 * 4) & 15
				}
				if got := wordNibble(raw[r*stride:], i); got != want {
					t.Fatalf("%s [%d, %d] is %d, want %d", name, r, i, got, want)
				}
			}
		}
	case Scales:
		if !slices.Equal(raw, out.Scales) {
			t.Errorf("%s is not what was quantized", name)
		}
	case Mins:
		if !slices.Equal(raw, out.Mins) {
			t.Errorf("%s is not what was quantized", name)
		}
	case ZeroPoints:
		groups := scales / m.Rows
		for g := range groups {
			for r := range (m.Rows + 7) / 8 * 8 {
				want := byte(0)
				if r < m.Rows {
					want = byte(int8(out.Mins[r*groups+g]) + 8)
				}
				got := byte(binary.LittleEndian.Uint32(raw[(r/8*groups+g)*4:]) >> (r % 8 * 4) & 15)
				if got != want {
					t.Fatalf("%s: zero point of row %d, group %d is %d, want %d", name, r, g, got, want)
				}
			}
		}
	case Global:
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw)); got != out.global {
			t.Errorf("%s is %v, want %v", name, got, out.global)
		}
	case Codebook:
		if want := kernels.CodebookCodes(out.book); len(want) != 4 || !slices.Equal(raw, want) {
			t.Errorf("%s is %v, want %v", name, raw, want)
		}
	case Shape:
		if r, c := binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:]); r != uint64(m.Rows) || c != uint64(m.Cols) {
			t.Errorf("%s is %d, %d", name, r, c)
		}
	}
}

// checkUnpacked wants codes of E2M1 in the place of codes of two bits.
func checkUnpacked(t *testing.T, rows, cols int, name string, raw []byte, out *prepared) {
	t.Helper()
	book, packed := kernels.CodebookCodes(out.book), len(out.Codes)/rows
	if len(raw) != rows*cols/2 {
		t.Fatalf("%s is %d bytes, want %d", name, len(raw), rows*cols/2)
	}
	for r := range rows {
		for c := range cols {
			want := book[out.Codes[r*packed+c/4]>>(c%4*2)&3]
			if got := raw[r*cols/2+c/2] >> (c % 2 * 4) & 15; got != want {
				t.Fatalf("%s [%d, %d] is %d, want %d", name, r, c, got, want)
			}
		}
	}
}

// checkExport opens an export and compares every tensor with its source.
func checkExport(t *testing.T, p *Plan, all []prepared, dir string) {
	t.Helper()
	out, _ := openModel(t, dir)
	if len(out.Findings) > 0 {
		t.Errorf("findings: %v", out.Findings)
	}
	var names []string
	for _, f := range p.ck.Files {
		names = append(names, f.Name)
	}
	for i, f := range out.Files {
		if f.Name != names[i] {
			t.Errorf("file %s instead of %s", f.Name, names[i])
		}
	}
	for i := range p.Matrices {
		for fd := range p.fieldsOf(i) {
			raw, x := content(t, out, fd.Name)
			if !strings.HasPrefix(x.Name, p.Modules[i]+".weight") || x.DType != fd.DType || !cmp.Equal(x.Shape, fd.Shape) || x.File != p.ShardOf(i) || x.Offset != fd.Offset {
				t.Errorf("%s is %s %v in file %d", x.Name, x.DType, x.Shape, x.File)
			}
			checkField(t, p, i, fd, raw, &all[i])
		}
	}
	targets := map[string]bool{}
	for i := range p.Matrices {
		targets[p.Matrices[i].Tensor] = true
	}
	for i := range p.ck.Tensors {
		src := &p.ck.Tensors[i]
		if targets[src.Name] {
			if x, ok := out.Lookup(src.Name); ok && x.DType == src.DType {
				t.Errorf("%s is still there", src.Name)
			}
			continue
		}
		a, _ := content(t, p.ck, src.Name)
		b, x := content(t, out, src.Name)
		if !slices.Equal(a, b) || x.DType != src.DType || !cmp.Equal(x.Shape, src.Shape) || x.File != src.File {
			t.Errorf("%s is not the same", src.Name)
		}
	}
	if got := out.Bytes(); got != p.WeightBytes {
		t.Errorf("%d bytes of tensors, planned %d", got, p.WeightBytes)
	}
	size := int64(0)
	for _, text := range files(t, dir) {
		size += int64(len(text))
	}
	if size != p.Bytes {
		t.Errorf("%d bytes, planned %d", size, p.Bytes)
	}
}

// Every scheme of every layout, in every arithmetic that it can store, holds
// what the kernels give; where the widths are those of the table of formats, so
// are the sizes.
func TestLayouts(t *testing.T) {
	ck, model := openModel(t, dense().write(t))
	for _, s := range schemes {
		targets := "model.layers.0.*proj.weight"
		if s.rowUnit > 0 {
			targets = "model.layers.0.mlp.*,*.q_proj.weight"
		}
		for _, c := range s.conventions {
			t.Run(fmt.Sprintf("%s/%s/%v", s.layout, s.format, c), func(t *testing.T) {
				sel, err := recipe.Select(model, targets)
				if err != nil {
					t.Fatal(err)
				}
				p, err := NewPlan(ck, model, sel.Matrices, variantOf(s.format, c), Settings{Layout: s.layout})
				if err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(t.TempDir(), "out")
				all := prepare(t, p)
				mustWrite(t, p, all, dir, Options{})
				checkExport(t, p, all, dir)
				for i := range p.Matrices {
					want, err := p.storeOf(i).format.Bytes(p.Matrices[i].Rows, p.Matrices[i].Cols)
					if err != nil {
						t.Fatal(err)
					}
					got, exact := int64(0), true
					for fd := range p.fieldsOf(i) {
						got += fd.Size
						exact = exact && fd.Field != ZeroPoints && p.storeOf(i).scheme.as == "" && (fd.Field != Scales || fd.DType.Bits() == p.storeOf(i).format.ScaleBits)
						if fd.Field == Shape {
							got -= fd.Size
						}
					}
					if exact && got != want {
						t.Errorf("%s takes %d bytes, the table of formats says %d", p.Matrices[i].Name, got, want)
					}
				}
			})
		}
	}
}

// Experts of one tensor become tensors of their own, [out, in], whichever way
// round they were.
func TestFusedExperts(t *testing.T) {
	for name, s := range map[string]synthetic{"outIn": fusedOutIn(), "inOut": fusedInOut(), "interleaved": fusedInterleaved()} {
		for _, layout := range []string{ModelOpt, CompressedTensors} {
			t.Run(name+"/"+layout, func(t *testing.T) {
				ck, model := openModel(t, s.write(t))
				p := planOf(t, ck, model, "", layout, "nvfp4")
				dir := filepath.Join(t.TempDir(), "out")
				all := prepare(t, p)
				mustWrite(t, p, all, dir, Options{})
				checkExport(t, p, all, dir)
				want := []string{}
				for x := range 3 {
					for _, proj := range []string{"gate_proj", "up_proj", "down_proj"} {
						want = append(want, fmt.Sprintf("model.language_model.layers.0.mlp.experts.%d.%s", x, proj))
					}
				}
				got := slices.Sorted(slices.Values(p.Modules))
				if slices.Sort(want); !cmp.Equal(got, want) {
					t.Errorf("modules %v", got)
				}
				out, _ := openModel(t, dir)
				suffix := map[string]string{ModelOpt: "weight", CompressedTensors: "weight_packed"}[layout]
				if x, ok := out.Lookup(want[0] + "." + suffix); !ok || !cmp.Equal(x.Shape, []int64{32, 8}) { // down_proj, [hidden, inner/2]
					t.Errorf("%s: %v", want[0], x)
				}
			})
		}
	}
}

// Rows that fill no whole words, and rows that share one with none.
func TestOddShapes(t *testing.T) {
	s := synthetic{shards: [][]shape{{{"model.layers.0.mlp.up_proj.weight", []int64{13, 27}}, {"model.layers.0.mlp.gate_proj.weight", []int64{1, 1}}, {"model.layers.0.mlp.down_proj.weight", []int64{8, 10}}}}}
	ck, model := openModel(t, s.write(t))
	for _, f := range []string{"int4-channel", "int4-channel-sym", "fp8", "fp8-channel", "fp8-block128"} {
		p := planOf(t, ck, model, "", CompressedTensors, f)
		all := prepare(t, p)
		dir := filepath.Join(t.TempDir(), "out")
		mustWrite(t, p, all, dir, Options{})
		checkExport(t, p, all, dir)
	}
}

// Shards that lie in folders of the checkpoint's stay there.
func TestSubfolders(t *testing.T) {
	source := mixture().write(t)
	if err := os.Mkdir(filepath.Join(source, "parts"), 0o777); err != nil {
		t.Fatal(err)
	}
	const name = "model-00002-of-00003.safetensors"
	if err := os.Rename(filepath.Join(source, name), filepath.Join(source, "parts", name)); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(source, indexName)
	text, err := os.ReadFile(index)
	if err == nil {
		err = os.WriteFile(index, []byte(strings.ReplaceAll(string(text), name, "parts/"+name)), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	ck, model := openModel(t, source)
	p := planOf(t, ck, model, "", CompressedTensors, "nvfp4")
	all := prepare(t, p)
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := write(t, p, all, dir, Options{files: &faults{at: 40, kill: true, err: errKilled}}); err == nil {
		t.Fatal("not killed")
	}
	mustWrite(t, p, all, dir, Options{Resume: true})
	checkExport(t, p, all, dir)
}

// What is stored in other chunks, in another order, is the same file.
func TestChunks(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	for _, f := range []string{"nvfp4", "int4-g32", "int4-channel-sym"} {
		p := planOf(t, ck, model, "model.layers.*proj.weight", CompressedTensors, f)
		all := prepare(t, p)
		a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		mustWrite(t, p, all, a, Options{})
		w, err := Create(t.Context(), p, b, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Matrices {
			rows := p.Matrices[i].Rows
			for first := (rows - 1) / 8 * 8; first >= 0; first -= 8 { // backwards
				if err := w.StoreMade(i, first, all[i].rows(p, i, first, min(8, rows-first)), all[i].made()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if r, err := w.Finish(t.Context()); err != nil || !r.Whole {
			t.Fatal(r, err)
		}
		sameFiles(t, b, a)
	}
}

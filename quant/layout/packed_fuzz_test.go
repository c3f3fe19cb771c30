package layout

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/fstest"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout/layouttest"
	"quantscope/quant/topology"
)

// openMemory opens a checkpoint of one file that is on no disk.
func openMemory(t testing.TB, config string, parts []part) *Layout {
	t.Helper()
	return openMemoryWith(t, config, parts, Options{})
}

// openMemoryWith is openMemory with options.
func openMemoryWith(t testing.TB, config string, parts []part, o Options) *Layout {
	t.Helper()
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	header, size := map[string]entry{}, int64(0)
	for _, p := range parts {
		n := int64(len(p.data))
		header[p.name] = entry{p.dtype.String(), p.shape, [2]int64{size, size + n}}
		size += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	for _, p := range parts {
		file = append(file, p.data...)
	}
	ck, err := checkpoint.OpenFS("memory", fstest.MapFS{"model.safetensors": {Data: file}, "config.json": {Data: []byte(config)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenWith(ck, model, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Whatever the shape, width, groups and order, what a packer that works bit by bit
// made is read as what it packed, in any ranges of rows and in panels.
func FuzzPacked(f *testing.F) {
	for k := range 8 {
		f.Add(uint8(k), uint16(8), uint16(32), uint8(16), uint8(k*5), uint64(k))
		f.Add(uint8(k), uint16(40), uint16(65), uint8(0), uint8(k*11), uint64(k))
		f.Add(uint8(k), uint16(72), uint16(96), uint8(24), uint8(k*3), uint64(k))
	}
	f.Fuzz(func(t *testing.T, width uint8, rows, cols uint16, group, flags uint8, seed uint64) {
		form := layouttest.Form{Bits: []int{2, 3, 4, 8}[width%4], Group: int(group), Sym: flags&1 > 0, V2: flags&2 > 0, Order: flags&4 > 0, AWQ: flags&8 > 0}
		r, c := int(rows%100)+1, int(cols%200)+1
		if form.Group == 0 {
			form.Group = -1
		}
		if form.AWQ {
			form.Bits, form.Order, r = 4, false, (r+7)/8*8
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		w := make([]float32, r*c)
		for i := range w {
			w[i] = float32(rng.NormFloat64()) * 0.1
		}
		p := layouttest.Pack(w, r, c, form, seed)
		config := gptqConfig(form.Bits, form.Group, form.Sym, fmt.Sprintf(`,"checkpoint_format":%q`, map[bool]string{false: formatGPTQ, true: formatGPTQv2}[form.V2]))
		parts := []part{
			{proj + ".qweight", checkpoint.I32, p.QweightShape, p.Qweight}, {proj + ".qzeros", checkpoint.I32, p.QzerosShape, p.Qzeros},
			{proj + ".scales", checkpoint.F16, []int64{int64(p.Groups), int64(r)}, p.Scales},
		}
		if form.AWQ {
			config = awqConfig(form.Group)
		} else {
			parts = append(parts, part{proj + ".g_idx", checkpoint.I32, []int64{int64(c)}, p.Index})
		}
		l := openMemory(t, config, parts)
		if len(l.Modules) != 1 {
			t.Fatalf("%+v %d×%d: %v", form, r, c, l.Findings)
		}
		m := &l.Modules[0]
		if m.Rows != r || m.Cols != c {
			t.Fatalf("%+v: %d×%d, want %d×%d", form, m.Rows, m.Cols, r, c)
		}
		for _, step := range []int{m.RowMultiple(), r} {
			sameFloats(t, fmt.Sprintf("%+v %d×%d", form, r, c), decode(t, m, step), p.Decoded)
		}
		var s Stored
		if err := m.Read(t.Context(), &s, 0, r); err != nil {
			t.Fatal(err)
		}
		row0, col0 := rng.IntN(r), rng.IntN(c)
		n, k := 1+rng.IntN(r-row0), 1+rng.IntN(c-col0)
		got := make([]float32, n*k)
		if err := m.Panel(got, &s, row0, n, col0, k); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			sameFloats(t, "panel", got[i*k:][:k], p.Decoded[(row0+i)*c+col0:][:k])
		}
	})
}

// One matrix of 2048×2048, read and turned, and decoded in panels.
func BenchmarkPanel(b *testing.B) {
	const side, depth = 2048, 256
	rng := rand.New(rand.NewPCG(1, 1))
	w := make([]float32, side*side)
	for i := range w {
		w[i] = float32(rng.NormFloat64())
	}
	for _, form := range []layouttest.Form{{Bits: 4, Group: 128}, {Bits: 4, Group: 128, Order: true}, {Bits: 3, Group: 128}, {Bits: 8, Group: 128}, {AWQ: true, Bits: 4, Group: 128}} {
		p := layouttest.Pack(w, side, side, form, 1)
		config := gptqConfig(form.Bits, form.Group, false, "")
		if form.AWQ {
			config = awqConfig(form.Group)
		}
		parts := []part{
			{proj + ".qweight", checkpoint.I32, p.QweightShape, p.Qweight}, {proj + ".qzeros", checkpoint.I32, p.QzerosShape, p.Qzeros},
			{proj + ".scales", checkpoint.F16, []int64{int64(p.Groups), side}, p.Scales},
		}
		if !form.AWQ {
			parts = append(parts, part{proj + ".g_idx", checkpoint.I32, []int64{side}, p.Index})
		}
		_, l := openPath(b, write(b, config, parts))
		m := &l.Modules[0]
		var s Stored
		b.Run(fmt.Sprintf("read/%s-order=%t", m.Spec.Format, form.Order), func(b *testing.B) {
			b.SetBytes(m.Bytes())
			for b.Loop() {
				if err := m.Read(b.Context(), &s, 0, side); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("decode/%s-order=%t", m.Spec.Format, form.Order), func(b *testing.B) {
			if err := m.Read(b.Context(), &s, 0, side); err != nil {
				b.Fatal(err)
			}
			dst := make([]float32, side*depth)
			b.SetBytes(side * side * 4)
			for b.Loop() {
				for col := 0; col < side; col += depth {
					if err := m.Panel(dst, &s, 0, side, col, depth); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

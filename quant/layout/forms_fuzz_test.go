package layout

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// bitPacker puts integers into little-endian words bit by bit, which is how packing is
// defined and not how it is read.
type bitPacker struct{ bits []bool }

func (b *bitPacker) put(v, n int) {
	for k := range n {
		b.bits = append(b.bits, v>>k&1 == 1)
	}
}

// fill goes on to a multiple of n bits.
func (b *bitPacker) fill(n int) {
	for len(b.bits)%n != 0 {
		b.bits = append(b.bits, false)
	}
}

func (b *bitPacker) bytes() []byte {
	out := make([]byte, len(b.bits)/8)
	for i, bit := range b.bits {
		if bit {
			out[i/8] |= 1 << (i % 8)
		}
	}
	return out
}

// made is a matrix of integers that a test packs: an element is scale·(code − zero).
type made struct {
	rows, cols, bits, group, groups int
	codes, zeros                    []int // from 0 on; zeros by row and group
	scales                          []float32
	index                           []int // the group of each input
}

func makeInts(rng *rand.Rand, rows, cols, bits, group int) *made {
	m := &made{rows: rows, cols: cols, bits: bits, group: group, groups: 1}
	if group > 0 {
		m.groups = (cols + group - 1) / group
	}
	for range rows * cols {
		m.codes = append(m.codes, rng.IntN(1<<bits))
	}
	for range rows * m.groups {
		m.zeros = append(m.zeros, rng.IntN(1<<bits))
		m.scales = append(m.scales, float32(rng.IntN(255)+1)/256) // exact in f16, bf16 and with every code in f32
	}
	for c := range cols {
		g := 0
		if group > 0 {
			g = c / group
		}
		m.index = append(m.index, g)
	}
	return m
}

// middle makes all zero points the middle of the codes.
func (m *made) middle() *made {
	for i := range m.zeros {
		m.zeros[i] = 1 << (m.bits - 1)
	}
	return m
}

func (m *made) want(columns []float32, round func(float32) float32) []float32 {
	out := make([]float32, m.rows*m.cols)
	for i := range out {
		k := i/m.cols*m.groups + m.index[i%m.cols]
		out[i] = round(m.scales[k] * float32(m.codes[i]-m.zeros[k]))
		if columns != nil {
			out[i] *= columns[i%m.cols]
		}
	}
	return out
}

func f32Bytes(v []float32) (out []byte) {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

func bf16Bytes(v []float32) (out []byte) {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint16(out, kernels.F32ToBF16(x))
	}
	return out
}

func i32Bytes(v []int) (out []byte) {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, uint32(int32(x)))
	}
	return out
}

// ctParts packs a matrix as compressed-tensors does, in newer files or older ones.
func (m *made) ctParts(padded, asymmetric, order bool, scales []byte, dtype checkpoint.DType) []part {
	each := 32 / m.bits
	line := func(b *bitPacker, n int, at func(int) int) int64 {
		from := len(b.bits)
		for k := range n {
			if b.put(at(k), m.bits); padded && (k+1)%each == 0 {
				b.fill(32)
			}
		}
		b.fill(32)
		return int64(len(b.bits)-from) / 32
	}
	var b bitPacker
	var words int64
	for r := range m.rows {
		words = line(&b, m.cols, func(c int) int { return m.codes[r*m.cols+c] })
	}
	shape := append(binary.LittleEndian.AppendUint64(nil, uint64(m.rows)), binary.LittleEndian.AppendUint64(nil, uint64(m.cols))...)
	parts := []part{
		{proj + ".weight_packed", checkpoint.I32, []int64{int64(m.rows), words}, b.bytes()},
		{proj + ".weight_scale", dtype, []int64{int64(m.rows), int64(m.groups)}, scales},
		{proj + ".weight_shape", checkpoint.I64, []int64{2}, shape},
	}
	if asymmetric {
		var lines [][]byte
		for g := range m.groups {
			var b bitPacker
			line(&b, m.rows, func(r int) int { return m.zeros[r*m.groups+g] })
			lines = append(lines, b.bytes())
		}
		var data []byte
		for at := 0; at < len(lines[0]); at += 4 {
			for g := range lines {
				data = append(data, lines[g][at:at+4]...)
			}
		}
		parts = append(parts, part{proj + ".weight_zero_point", checkpoint.I32, []int64{int64(len(lines[0]) / 4), int64(m.groups)}, data})
	}
	if order {
		parts = append(parts, part{proj + ".weight_g_idx", checkpoint.I32, []int64{int64(m.cols)}, i32Bytes(m.index)})
	}
	return parts
}

// Whatever the shape, bits, groups and order, integers that were packed bit by bit are
// read as what was packed, in any ranges of rows, by each maker's way.
func FuzzForms(f *testing.F) {
	for k := range 7 {
		for bits := range 8 {
			f.Add(uint8(k), uint8(bits), uint16(9*bits+k), uint16(64+bits), uint8(16*bits), uint8(37*bits), uint64(k))
		}
	}
	f.Fuzz(func(t *testing.T, form, width uint8, rows, cols uint16, group, flags uint8, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, uint64(form)))
		r, c, bits, g := int(rows%70)+2, int(cols%150)+1, int(width%8)+1, int(group%96)
		asymmetric, order, padded, narrow := flags&1 > 0, flags&2 > 0, flags&4 > 0, flags&8 > 0
		exact := func(v float32) float32 { return v }
		var parts []part
		var config string
		var want []float32
		switch form % 7 {
		case 0: // compressed-tensors' words
			m := makeInts(rng, r, c, bits, g)
			if !asymmetric {
				m.middle()
			}
			if order && g > 0 {
				rng.Shuffle(c, func(i, j int) { m.index[i], m.index[j] = m.index[j], m.index[i] })
			}
			scales, dtype, round := f32Bytes(m.scales), checkpoint.F32, exact
			if narrow {
				scales, dtype, round = bf16Bytes(m.scales), checkpoint.BF16, toBF16.of
			}
			if 32%bits == 0 {
				padded = false
			}
			parts = m.ctParts(padded, asymmetric, order && g > 0, scales, dtype)
			config = ctHead + fmt.Sprintf(`{"num_bits":%d,"type":"int","symmetric":%t,"strategy":"%s"%s}`, bits, !asymmetric, map[bool]string{true: "group", false: "channel"}[g > 0], groupJSONOf(g)) + ctTail
			want = m.want(nil, round)
		case 1: // and its bytes
			m := makeInts(rng, r, c, 8, g)
			if !asymmetric {
				m.middle()
			}
			parts = []part{
				{proj + ".weight", checkpoint.I8, []int64{int64(r), int64(c)}, signedBytes(m.codes)},
				{proj + ".weight_scale", checkpoint.F32, []int64{int64(r), int64(m.groups)}, f32Bytes(m.scales)},
			}
			if asymmetric {
				parts = append(parts, part{proj + ".weight_zero_point", checkpoint.I8, []int64{int64(r), int64(m.groups)}, signedBytes(m.zeros)})
			}
			config = ctHead + fmt.Sprintf(`{"num_bits":8,"type":"int","symmetric":%t,"strategy":"%s"%s}`, !asymmetric, map[bool]string{true: "group", false: "channel"}[g > 0], groupJSONOf(g)) + ctTail
			want = m.want(nil, exact)
		case 2: // ModelOpt's pairs of outputs
			r, g = (r+1)/2*2, max(g, 1)
			c = (c + g - 1) / g * g
			m := makeInts(rng, r, c, 4, g).middle()
			var data []byte
			for k := 0; k < r; k += 2 {
				for i := range c {
					data = append(data, byte(m.codes[k*c+i]^8|(m.codes[(k+1)*c+i]^8)<<4))
				}
			}
			parts = []part{
				{proj + ".weight", checkpoint.U8, []int64{int64(r / 2), int64(c)}, data},
				{proj + ".weight_scale", checkpoint.F32, []int64{int64(r), int64(m.groups)}, f32Bytes(m.scales)},
			}
			var columns []float32
			if order {
				for range c {
					columns = append(columns, float32(rng.IntN(64)+1)/32)
				}
				parts = append(parts, part{proj + ".pre_quant_scale", checkpoint.BF16, []int64{int64(c)}, bf16Bytes(columns)})
			}
			config = fmt.Sprintf(`{"model_type":"llama","quantization_config":{"quant_method":"modelopt","quant_algo":"W4A16_AWQ","group_size":%d,"ignore":[]}}`, g)
			want = m.want(columns, exact)
		case 3, 4: // Quark's words, transposed or not
			var m *made
			nibble := [8]int{0, 1, 2, 3, 4, 5, 6, 7}
			if !order {
				nibble = [8]int{0, 2, 4, 6, 1, 3, 5, 7}
			}
			flip := 0
			dtype := "uint4"
			if padded {
				flip, dtype = 8, "int4"
			}
			word := func(at func(int) int) (b []byte) {
				v := uint32(0)
				for i, k := range nibble {
					v |= uint32(at(k)^flip) << (4 * i)
				}
				return binary.LittleEndian.AppendUint32(nil, v)
			}
			var codes, zeros []byte
			scheme, shapes := "per_channel", [3][]int64{}
			r = (r + 7) / 8 * 8
			if form%7 == 3 {
				g = max(g, 1)
				m, scheme = makeInts(rng, r, c, 4, g), "per_group"
				turned := make([]float32, 0, r*m.groups)
				for i := range c {
					for k := 0; k < r; k += 8 {
						codes = append(codes, word(func(n int) int { return m.codes[(k+n)*c+i] })...)
					}
				}
				for i := range m.groups {
					for k := 0; k < r; k += 8 {
						zeros = append(zeros, word(func(n int) int { return m.zeros[(k+n)*m.groups+i] })...)
					}
					for k := range r {
						turned = append(turned, m.scales[k*m.groups+i])
					}
				}
				shapes = [3][]int64{{int64(c), int64(r / 8)}, {int64(m.groups), int64(r)}, {int64(m.groups), int64(r / 8)}}
				parts = append(parts, part{proj + ".weight_scale", checkpoint.F32, shapes[1], f32Bytes(turned)})
			} else {
				c, g = (c+7)/8*8, 0
				m = makeInts(rng, r, c, 4, 0)
				for k := 0; k < r*c; k += 8 {
					codes = append(codes, word(func(n int) int { return m.codes[k+n] })...)
				}
				for k := 0; k < r; k += 8 {
					zeros = append(zeros, word(func(n int) int { return m.zeros[k+n] })...)
				}
				shapes = [3][]int64{{int64(r), int64(c / 8)}, {int64(r)}, {int64(r / 8)}}
				parts = append(parts, part{proj + ".weight_scale", checkpoint.F32, shapes[1], f32Bytes(m.scales)})
			}
			parts = append(parts, part{proj + ".weight", checkpoint.I32, shapes[0], codes}, part{proj + ".weight_zero_point", checkpoint.I32, shapes[2], zeros})
			pack := quarkReorder
			if order {
				pack = quarkOrder
			}
			config = fmt.Sprintf(`{"model_type":"llama","quantization_config":{"quant_method":"quark","exclude":[],"export":{"pack_method":%q},"global_quant_config":{"weight":{"dtype":%q,"qscheme":%q%s}}}}`, pack, dtype, scheme, groupJSONOf(g))
			want = m.want(nil, exact)
		case 5: // Quark's bytes, transposed
			g = max(g, 1)
			m := makeInts(rng, r, c, 8, g)
			codes, zeros, scales := make([]byte, r*c), make([]byte, r*m.groups), make([]float32, r*m.groups)
			for k := range r {
				for i := range c {
					codes[i*r+k] = byte(m.codes[k*c+i])
				}
				for i := range m.groups {
					zeros[i*r+k], scales[i*r+k] = byte(m.zeros[k*m.groups+i]), m.scales[k*m.groups+i]
				}
			}
			shape := []int64{int64(m.groups), int64(r)}
			parts = []part{{proj + ".weight", checkpoint.U8, []int64{int64(c), int64(r)}, codes}, {proj + ".weight_scale", checkpoint.F32, shape, f32Bytes(scales)}, {proj + ".weight_zero_point", checkpoint.U8, shape, zeros}}
			config = fmt.Sprintf(`{"model_type":"llama","quantization_config":{"quant_method":"quark","exclude":[],"export":{},"global_quant_config":{"weight":{"dtype":"uint8","qscheme":"per_group","group_size":%d}}}}`, g)
			want = m.want(nil, exact)
		case 6: // AWQ's gemv
			g = []int{32, 64, 128}[width%3]
			c = (c + g - 1) / g * g
			m := makeInts(rng, r, c, 4, g)
			fill := map[int]int{32: 4, 64: 2, 128: 1}[g]
			across := ((m.groups+7)/8 + fill - 1) / fill * fill
			var codes, zeros bitPacker
			scales := make([]float32, r*across*8)
			for k := range r {
				for i := range c {
					codes.put(m.codes[k*c+i], 4)
				}
				for i := range m.groups {
					zeros.put(m.zeros[k*m.groups+i], 4)
					scales[k*across*8+i] = m.scales[k*m.groups+i]
				}
				zeros.fill(32 * across)
			}
			parts = []part{
				{proj + ".qweight", checkpoint.I32, []int64{int64(r), int64(c / 8)}, codes.bytes()},
				{proj + ".qzeros", checkpoint.I32, []int64{int64(r), int64(across)}, zeros.bytes()},
				{proj + ".scales", checkpoint.F32, []int64{int64(r), int64(across * 8)}, f32Bytes(scales)},
			}
			config = fmt.Sprintf(`{"model_type":"llama","quantization_config":{"quant_method":"awq","bits":4,"group_size":%d,"version":"gemv","zero_point":true}}`, g)
			want = m.want(nil, exact)
		}
		l := openMemory(t, config, parts)
		if len(l.Modules) == 0 && form%7 == 0 && slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.ID == Incomplete }) && 32%bits != 0 {
			l = openMemoryWith(t, config, parts, Options{Packing: map[bool]Packing{true: PackingPadded, false: PackingDense}[padded]})
		}
		if len(l.Modules) != 1 || len(l.Findings) != 0 {
			t.Fatalf("%s\n%d modules, %v", config, len(l.Modules), l.Findings)
		}
		m := &l.Modules[0]
		n := m.RowMultiple()
		for _, step := range []int{n, (1 + int(seed%5)) * n, m.Rows} {
			sameFloats(t, m.Spec.Format+": "+m.Reading(), decode(t, m, step), want)
		}
		if m.OwnPanels() {
			var s Stored
			if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
				t.Fatal(err)
			}
			row, col := int(seed%uint64(m.Rows)), int(seed/7%uint64(m.Cols))
			got := make([]float32, m.Cols-col)
			if err := m.Panel(got, &s, row, 1, col, m.Cols-col); err != nil {
				t.Fatal(err)
			}
			sameFloats(t, "panel", got, want[row*m.Cols+col:(row+1)*m.Cols])
			if i, ok := m.Integers(); ok && i.Bits != m.Format().Bits {
				t.Errorf("%+v of %+v", i, m.Format())
			}
		}
	})
}

// groupJSONOf states a size of groups, where there is one.
func groupJSONOf(g int) string {
	if g <= 0 {
		return ""
	}
	return fmt.Sprintf(`,"group_size":%d`, g)
}

// signedBytes are integers from 0 to 255 as bytes from −128 to 127.
func signedBytes(v []int) (out []byte) {
	for _, x := range v {
		out = append(out, byte(x)^0x80)
	}
	return out
}

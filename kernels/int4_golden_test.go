package kernels

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// What compressed-tensors makes of weights in 4 bits: packed words, scales,
// zero points and what they decode to.
func TestInt4Golden(t *testing.T) {
	for _, set := range Available() {
		for file, format := range map[string]string{"sym_g128": "int4-g128-sym", "asym_g128": "int4-g128", "asym_g32": "int4-g32"} {
			g := golden(t, "golden/int4_ct_"+file+".safetensors")
			m := need(t, g, "w").matrix(t)
			for _, conv := range []Convention{CT, CT32} {
				t.Run(set.Name+"/"+file+"/"+conv.String(), func(t *testing.T) {
					src, prefix := m, conv.String()
					if conv == CT32 {
						src = asF32(t, m)
					}
					spec := Spec{Format: format, Convention: conv}
					b := quantizeBlocks(t, set, src, spec, 0)
					equalBits(t, "scales", b.Scales, need(t, g, prefix+".weight_scale").data)
					words := make([]byte, m.Rows*4*PackedWords(m.Cols, 4))
					if err := PackCodesInt32(words, b.Codes, m.Rows, m.Cols); err != nil {
						t.Fatal(err)
					}
					equalBits(t, "packed", words, need(t, g, prefix+".weight_packed").data)
					if file != "sym_g128" {
						equalBits(t, "zero points", b.Mins, need(t, g, prefix+".zero_point_int8").data)
						groups := len(b.Mins) / m.Rows
						packed := make([]byte, 4*PackedWords(m.Rows, 4)*groups)
						if err := PackZeroPoints(packed, b.Mins, m.Rows, groups, 4); err != nil {
							t.Fatal(err)
						}
						equalBits(t, "packed zero points", packed, need(t, g, prefix+".weight_zero_point").data)
						back := make([]byte, len(b.Mins))
						if err := UnpackZeroPoints(back, packed, m.Rows, groups, 4); err != nil {
							t.Fatal(err)
						}
						equalBits(t, "unpacked zero points", back, b.Mins)
					}
					decoded := b.decode(t, spec, m)
					want := need(t, g, prefix+".dequant")
					if conv == CT32 {
						if !slices.Equal(decoded, want.f32()) {
							t.Errorf("decoded: %s", firstDiff(decoded, want.f32()))
						}
					} else if got := bf16Of(decoded); !slices.Equal(got, want.u16()) {
						t.Errorf("decoded: %s", firstDiff(got, want.u16()))
					}
					checkBlockTap(t, src, spec, &b, decoded)
				})
			}
		}
	}
}

// Other widths are packed, unpacked and decoded.
func TestPackInt32Golden(t *testing.T) {
	for file, want := range map[string]struct{ bits, group int }{
		"w8_sym_g128": {8, 128}, "w3_sym_g64": {3, 64}, "sym_g128": {4, 128},
	} {
		g := golden(t, "golden/int4_ct_"+file+".safetensors")
		shape := need(t, g, "w").Shape
		rows, cols := shape[0], shape[1]
		for _, prefix := range []string{"ct", "ct32"} {
			packed := need(t, g, prefix+".weight_packed").data
			values := make([]int8, rows*cols)
			if err := UnpackInt32(values, packed, rows, cols, want.bits); err != nil {
				t.Fatal(err)
			}
			again := make([]byte, len(packed))
			if err := PackInt32(again, values, rows, cols, want.bits); err != nil {
				t.Fatal(err)
			}
			equalBits(t, file+" "+prefix, again, packed)
			scales, rule := need(t, g, prefix+".weight_scale"), ruleIntZero
			if prefix == "ct" {
				rule = ruleIntZeroBF16
			}
			for i, v := range values {
				block := i/cols*(cols/want.group) + i%cols/want.group
				size := len(scales.data) / (rows * cols / want.group)
				scale := storedScale(t, scales.data[block*size:(block+1)*size])
				got, dequant := rule.value(float32(v), scale), need(t, g, prefix+".dequant").data
				if w := storedScale(t, dequant[i*size:(i+1)*size]); got != w {
					t.Fatalf("%s %s: element %d decodes to %v, want %v", file, prefix, i, got, w)
				}
			}
		}
	}
}

// Every width comes back, also where rows end within a word.
func TestPackInt32RoundTrip(t *testing.T) {
	for bits := 1; bits <= 8; bits++ {
		for cols := range 70 {
			const rows = 3
			values := make([]int8, rows*cols)
			for i := range values {
				values[i] = int8(i*37%(1<<bits) - 1<<(bits-1))
			}
			words := make([]byte, rows*4*PackedWords(cols, bits))
			back := make([]int8, len(values))
			if err := PackInt32(words, values, rows, cols, bits); err != nil {
				t.Fatal(err)
			}
			if err := UnpackInt32(back, words, rows, cols, bits); err != nil || !slices.Equal(back, values) {
				t.Fatalf("%d bits, %d columns: %v, %s", bits, cols, err, firstDiff(back, values))
			}
			// Bit k of the stream belongs to element k/bits.
			for r := range rows {
				for k := range cols * bits {
					word := binary.LittleEndian.Uint32(words[4*(r*PackedWords(cols, bits)+k/32):])
					stored := int(values[r*cols+k/bits]) + 1<<(bits-1)
					if int(word>>(k%32)&1) != stored>>(k%bits)&1 {
						t.Fatalf("%d bits: bit %d of row %d", bits, k, r)
					}
				}
			}
		}
	}
}

func TestPackRefuses(t *testing.T) {
	for _, err := range []error{
		PackInt32(make([]byte, 4), make([]int8, 8), 1, 8, 9),
		PackInt32(make([]byte, 4), make([]int8, 8), 1, 8, 0),
		PackInt32(make([]byte, 4), make([]int8, 7), 1, 8, 4),
		PackInt32(make([]byte, 8), make([]int8, 8), 1, 8, 4),
		PackInt32(make([]byte, 4), []int8{8}, 1, 1, 4),
		PackInt32(nil, nil, -1, 8, 4),
		PackInt32(nil, nil, 1<<62, 1<<62, 4),
		UnpackInt32(make([]int8, 8), make([]byte, 3), 1, 8, 4),
		PackZeroPoints(make([]byte, 4), make([]byte, 3), 8, 1, 4),
		PackZeroPoints(make([]byte, 4), []byte{99}, 1, 1, 4),
		UnpackZeroPoints(make([]byte, 8), make([]byte, 8), 8, 1, 4),
		PackCodesInt32(make([]byte, 4), make([]byte, 3), 1, 8),
		PackCodesInt32(nil, nil, 1, -8),
		UnpackCodesInt32(make([]byte, 4), make([]byte, 3), 1, 8),
	} {
		if err == nil {
			t.Error("accepted")
		}
	}
	if PackedWords(math63, 4) != -1 || PackedWords(1, 9) != -1 || PackedWords(11, 3) != 2 {
		t.Error(fmt.Sprint(PackedWords(math63, 4), PackedWords(1, 9), PackedWords(11, 3)))
	}
}

const math63 = 1<<63 - 1

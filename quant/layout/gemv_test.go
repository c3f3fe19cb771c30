package layout

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// Where zero_point is false every zero point of gemv is 8, and rows are filled up with
// zeros: nibbles of the word that is not full, and whole words.
func TestGEMVFill(t *testing.T) {
	const outs, ins = 8, 640 // 10 groups of 64: two words of zero points, the second with 2 groups
	for _, c := range []struct {
		words   []uint32 // of a row of zero points
		refused string
	}{
		{[]uint32{0x88888888, 0x88}, ""},
		{[]uint32{0x88888888, 0x88888888}, ""},
		{[]uint32{0x88888888, 0x88, 0, 0}, ""},
		{[]uint32{0x88888888, 0x888}, "the first word is 0x00000888"},
		{[]uint32{0x88888888, 0}, "the first word is 0x00000000"},
		{[]uint32{0, 0x88}, "the first word is 0x00000000"},
		{[]uint32{0x88888888, 0x88, 8, 0}, "the first word is 0x00000008"},
		{[]uint32{0x88888888, 0x88, 0, 0, 0, 0, 0, 0}, ""},
		{[]uint32{0x88888888, 0x88, 0, 0, 0, 0, 0, 0, 0}, "want [8 2] or up to four words more"},
	} {
		t.Run(fmt.Sprintf("%x", c.words), func(t *testing.T) {
			var zeros []byte
			for range outs {
				for _, w := range c.words {
					zeros = binary.LittleEndian.AppendUint32(zeros, w)
				}
			}
			n := int64(len(c.words))
			_, l := openPath(t, write(t, `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":64,"version":"gemv","zero_point":false}}`, []part{
				{proj + ".qweight", checkpoint.I32, []int64{outs, ins / 8}, make([]byte, outs*ins/2)},
				{proj + ".qzeros", checkpoint.I32, []int64{outs, n}, zeros},
				{proj + ".scales", checkpoint.F16, []int64{outs, 8 * n}, make([]byte, outs*8*n*2)},
			}))
			if refused := len(l.Modules) == 0; refused != (c.refused != "") {
				t.Fatalf("%d modules: %v", len(l.Modules), l.Findings)
			}
			if c.refused != "" && !slices.ContainsFunc(l.Findings, func(f Finding) bool { return strings.Contains(f.Message, c.refused) }) {
				t.Errorf("nothing with %q in %v", c.refused, l.Findings)
			}
		})
	}
}

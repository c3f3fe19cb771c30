package convert

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// One zero point of 0 anywhere makes GPTQ's newer format of the whole, in which no
// reader borrows, whichever module has it.
func TestZeroPointOfZero(t *testing.T) {
	g := golden(t, "gptq_asym_g64_zero0", "")
	eights := g["qzeros_v2"]
	eights.data = slices.Repeat([]byte{0x88}, len(eights.data))
	g["eights"] = eights
	names := []string{"k_proj", "q_proj", "v_proj"}
	for _, at := range names {
		var parts []part
		for _, name := range names {
			zeros := "eights>qzeros"
			if name == at {
				zeros = "qzeros_v2>qzeros"
			}
			parts = append(parts, module(layer+"self_attn."+name, g, "qweight", zeros, "scales", "g_idx")...)
		}
		words, _ := convertTo(t, folder(t, gptqQuant(4, 64, false, false, "gptq_v2"), parts), CompressedTensors)
		text, err := os.ReadFile(filepath.Join(words, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		// no word any more of what it was converted from
		putFile(t, words, "config.json", strings.Replace(string(text), `"checkpoint_format"`, `"was"`, 1))
		out, _ := convertTo(t, words, GPTQ)
		if f := quantConfig(t, out)["checkpoint_format"]; f != "gptq_v2" {
			t.Errorf("%s: checkpoint_format is %v", at, f)
		}
		if x := tensors(t, out)[layer+"self_attn."+at+".qzeros"]; string(x.data) != string(g["qzeros_v2"].data) {
			t.Errorf("%s: other zero points", at)
		}
	}
}

package model

import (
	"fmt"
	"testing"
)

// TestDemo compares the embedded model's logits with those of transformers in
// f32, and the experts that it chose.
func TestDemo(t *testing.T) {
	f, gold := openedDemo(t), openGolden(t, "demo_logits.safetensors")
	for _, text := range []string{"prose", "multi"} {
		o, routed := quick(), 0
		o.Routed = func(_, layer int, _ []float32, choices []Choice) {
			routed++
			want, _ := gold.values(fmt.Sprintf("%s.experts.%d", text, layer))
			for i, c := range choices {
				a, b := float32(c.Experts[0]), float32(c.Experts[1])
				if w := want[2*i:]; !(a == w[0] && b == w[1] || a == w[1] && b == w[0]) {
					t.Fatalf("%s: layer %d token %d: experts %v, want %v", text, layer, i, c.Experts, want[2*i:2*i+2])
				}
			}
		}
		_, logits := logitsOf(t, f, f.source(), gold.chunks(text+".ids"), o)
		want, _ := gold.values(text + ".logits")
		within(t, text, logits, want, 1e-4)
		if routed != 4 {
			t.Errorf("%s: %d routers, want 4", text, routed)
		}
	}
}

package align

import (
	"bytes"
	"testing"

	"quantscope/quant/checkpoint"
)

// Where a part of each head is rotated (partial_rotary_factor), only its rows stand as
// pairs.
func TestPartialRotary(t *testing.T) {
	m := load(t, llama)
	m.config = bytes.Replace(m.config, []byte("{"), []byte(`{"partial_rotary_factor": 0.5, `), 1)
	master := m.write(t, checkpoint.F32)
	order := make([]int, 64) // 8 heads of 8, of which rows 0 to 3 turn
	for r := range order {
		at := r
		if in := r % 8; in < 4 {
			at = r/8*8 + 2*(in%2) + in/2
		}
		order[at] = r
	}
	m.at(t, "layers.0.self_attn.q_proj.weight").order(order)
	r := compare(t, master, m.write(t, checkpoint.F32), Options{})
	const want = "rotary rows of 8 heads of 8: halves stand as pairs: put back"
	if x := r.result(t, "model.layers.0.self_attn.q_proj"); len(x.Undone) != 1 || x.Undone[0] != want || x.Different != 0 || len(r.Findings) != 0 {
		t.Errorf("%+v, %v; want %q", x, r.Findings, want)
	}
}

package kernels

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// peerErrors are what gptq_algo.json says of one configuration.
type peerErrors struct {
	Weight float64 `json:"weight_error"`
	Output float64 `json:"output_error"`
	RTN    float64 `json:"rtn_output_error"`
}

func gptqPeers(t *testing.T) map[string]peerErrors {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden/gptq_algo.json")
	if err != nil {
		t.Fatal(err)
	}
	peers := map[string]peerErrors{}
	if err := json.Unmarshal(raw, &peers); err != nil {
		t.Fatal(err)
	}
	return peers
}

// goldenGPTQ is a golden matrix with its Hessian, (2/N)·XᵀX.
func goldenGPTQ(t *testing.T, file string) gptqCase {
	t.Helper()
	tensors := golden(t, file)
	w := need(t, tensors, "W")
	c := gptqCase{rows: w.Shape[0], cols: w.Shape[1], w: w.f32()}
	x := need(t, tensors, "X").matrix(t)
	c.h, _ = NewDense(c.cols, c.cols)
	if err := Best().SYRK(c.h, StoredOperand(x), GEMMOptions{Alpha: 2 / float32(x.Rows)}); err != nil {
		t.Fatal(err)
	}
	return c
}

// byDiagonal is the columns by decreasing diagonal of the Hessian.
func byDiagonal(h Dense) []int {
	order := make([]int, h.Cols)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := h.Data[a*h.Stride+a], h.Data[b*h.Stride+b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return order
}

// relativeErrors are ‖W−Q‖/‖W‖ and ‖(W−Q)X‖/‖WX‖.
func relativeErrors(t *testing.T, c gptqCase, q []float32) (weight, output float64) {
	t.Helper()
	e2, w2, err := Best().OutputError(c.h, c.operand(), DenseOperand(Dense{Rows: c.rows, Cols: c.cols, Stride: c.cols, Data: q}), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var e, w float64
	for i, x := range c.w {
		d := float64(x) - float64(q[i])
		e += d * d
		w += float64(x) * float64(x)
	}
	return math.Sqrt(e / w), math.Sqrt(e2 / w2)
}

// The Hessian of the golden inputs is what llm-compressor and gptqmodel gather.
func TestSYRKIsThePeersHessian(t *testing.T) {
	c := goldenGPTQ(t, "golden/gptq_algo_correlated.safetensors")
	want := need(t, golden(t, "golden/gptq_algo_correlated.safetensors"), "hessian").f32()
	scale := 0.0
	for _, x := range want {
		scale = max(scale, math.Abs(float64(x)))
	}
	for i, x := range want {
		if d := math.Abs(float64(x) - float64(c.h.Data[i])); d > 1e-5*scale {
			t.Fatalf("(%d, %d) is %v, want %v", i/c.cols, i%c.cols, c.h.Data[i], x)
		}
	}
}

// For each configuration of the peers our output error is at most 1.01 of theirs:
// in their arithmetic, and in our own with a minimum. The error of weights rises
// above that of round to nearest, and that of outputs falls below.
func TestGPTQMeetsItsPeers(t *testing.T) {
	peers := gptqPeers(t)
	for _, x := range []struct {
		data, peer string
		specs      []Spec
		order      bool
		static     bool
	}{
		{"correlated", "llmc_asym", []Spec{{Format: "int4-g128", Convention: CT32}, {Format: "int4-g128", Convention: Own}}, false, true},
		{"correlated", "llmc_asym_actorder_static", []Spec{{Format: "int4-g128", Convention: CT32}, {Format: "int4-g128", Convention: Own}}, true, true},
		{"correlated", "llmc_sym", []Spec{{Format: "int4-g128-sym", Convention: CT32}, {Format: "int4-g128-sym", Convention: Own}}, false, true},
		{"correlated", "gptqmodel_asym", []Spec{{Format: "int4-g128", Convention: CT32}, {Format: "int4-g128", Convention: Own}}, false, false},
		{"correlated", "gptqmodel_asym_desc_act_static_groups", []Spec{{Format: "int4-g128", Convention: CT32}, {Format: "int4-g128", Convention: Own}}, true, true},
		{"dead_columns", "llmc_asym", []Spec{{Format: "int4-g128", Convention: CT32}, {Format: "int4-g128", Convention: Own}}, false, true},
		{"dead_columns", "llmc_asym_actorder_static", []Spec{{Format: "int4-g128", Convention: CT32}, {Format: "int4-g128", Convention: Own}}, true, true},
		{"dead_columns", "gptqmodel_asym", []Spec{{Format: "int4-g128", Convention: CT32}, {Format: "int4-g128", Convention: Own}}, false, false},
		{"dead_columns", "gptqmodel_asym_desc_act_static_groups", []Spec{{Format: "int4-g128", Convention: CT32}, {Format: "int4-g128", Convention: Own}}, true, true},
	} {
		peer, ok := peers[x.data+"."+x.peer]
		if !ok {
			t.Fatalf("no figures of %s.%s", x.data, x.peer)
		}
		c := goldenGPTQ(t, "golden/gptq_algo_"+x.data+".safetensors")
		var o FactorOptions
		if x.order {
			o.Order = byDiagonal(c.h)
		}
		for _, s := range []Set{Reference(), Best()} {
			f, err := s.Factorize(c.h, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range x.specs {
				_, q, _ := runGPTQ(t, s, c, f, GPTQOptions{Spec: spec, Static: x.static})
				weight, output := relativeErrors(t, c, q)
				rtn, global, _ := plain(t, s, spec, c.matrix(), nil)
				plainly := make([]float32, len(q))
				if err := s.Dequantize(plainly, spec, c.rows, c.cols, rtn.Codes, rtn.Scales, rtn.Mins, global); err != nil {
					t.Fatal(err)
				}
				rtnWeight, rtnOutput := relativeErrors(t, c, plainly)
				what := fmt.Sprintf("%s: %s, %s: %v", s.Name, x.data, x.peer, spec)
				if output > 1.01*peer.Output {
					t.Errorf("%s: output error %v, the peer's %v", what, output, peer.Output)
				}
				if output >= rtnOutput || weight <= rtnWeight {
					t.Errorf("%s: errors of weights %v and outputs %v, of round to nearest %v and %v", what, weight, output, rtnWeight, rtnOutput)
				}
			}
		}
	}
}

// With an identity Hessian the codes are llm-compressor's of round to nearest,
// which are also its GPTQ's.
func TestGPTQIdentityIsThePeers(t *testing.T) {
	tensors := golden(t, "golden/gptq_algo_identity.safetensors")
	w := need(t, tensors, "W")
	c := gptqCase{rows: w.Shape[0], cols: w.Shape[1], w: w.f32()}
	f, err := Best().Factorize(identityHessian(c.cols, 2), FactorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, q, _ := runGPTQ(t, Best(), c, f, GPTQOptions{Spec: Spec{Format: "int4-g128", Convention: CT32}})
	codes := make([]byte, len(q))
	if err := Best().UnpackNibbles(codes, out.Codes); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(codes, need(t, tensors, "llmc_asym.rtn_codes").data) || !slices.Equal(codes, need(t, tensors, "llmc_asym.codes").data) {
		t.Error("codes differ")
	}
	for i, x := range need(t, tensors, "llmc_asym.Q").f32() {
		if x != q[i] {
			t.Fatalf("element %d is %v, want %v", i, q[i], x)
		}
	}
}

// The inputs of three experts: one normal, one with fewer tokens than columns
// and channels that are always 0, one without a token.
func TestGPTQOfThreeExperts(t *testing.T) {
	tensors := golden(t, "cases/calibration.safetensors")
	for expert, tokens := range []int{64, 6, 0} {
		w := need(t, tensors, fmt.Sprintf("experts.%d.weight", expert))
		in := need(t, tensors, fmt.Sprintf("experts.%d.inputs", expert))
		c := gptqCase{rows: w.Shape[0], cols: w.Shape[1], w: w.f32()}
		c.h, _ = NewDense(c.cols, c.cols)
		if in.Shape[0] != tokens {
			t.Fatalf("expert %d has %d tokens", expert, in.Shape[0])
		}
		if err := Best().SYRK(c.h, StoredOperand(in.matrix(t)), GEMMOptions{}); err != nil {
			t.Fatal(err)
		}
		f, err := Best().Factorize(c.h, FactorOptions{})
		d, also := Best().Diagnose(c.h, FactorOptions{})
		if tokens == 0 {
			if err != ErrNoData || also != ErrNoData {
				t.Errorf("expert %d: %v, %v; want ErrNoData", expert, err, also)
			}
			continue
		}
		if err != nil || also != nil {
			t.Fatal(err, also)
		}
		wantRank, wantDead := c.cols, 0
		if expert == 1 {
			wantRank, wantDead = 6, 2
		}
		if d.Rank != wantRank || d.Dead != wantDead {
			t.Errorf("expert %d: rank %d, %d dead; want %d, %d", expert, d.Rank, d.Dead, wantRank, wantDead)
		}
		for _, format := range []string{"int4-g32", "int4-g32-sym", "int4-channel", "nvfp4", "mxfp4"} {
			for _, conv := range Conventions(format) {
				spec := Spec{Format: format, Convention: conv}
				out, q, r := runGPTQ(t, Best(), c, f, GPTQOptions{Spec: spec})
				rtn, global, _ := plain(t, Best(), spec, c.matrix(), nil)
				plainly := make([]float32, len(q))
				if err := Dequantize(plainly, spec, c.rows, c.cols, rtn.Codes, rtn.Scales, rtn.Mins, global); err != nil {
					t.Fatal(err)
				}
				for i, x := range q {
					if x-x != 0 {
						t.Fatalf("%v: element %d is %v", spec, i, x)
					}
				}
				if e, limit := outputError64(c, q), outputError64(c, plainly); e > limit*(1+1e-6) {
					t.Errorf("expert %d, %v: output error %v, of round to nearest %v", expert, spec, e, limit)
				}
				if expert != 1 {
					continue
				}
				// Dead channels: plainly rounded under the scales that the run chose.
				under := &Output{Codes: slices.Clone(out.Codes), Scales: out.Scales, Mins: out.Mins}
				some := false
				for r0 := range c.rows {
					for _, col := range []int{5, 9} {
						step, offset := storedParams(t, spec, c, under, r.Global, r0, col)
						_, want := gptqRuleOf(mustFormat(t, format), conv).code(c.w[r0*c.cols+col], step, offset)
						if got := q[r0*c.cols+col]; got != want {
							t.Fatalf("%v: row %d, dead column %d is %v, want %v", spec, r0, col, got, want)
						}
						some = some || want != 0
					}
				}
				if !some {
					t.Errorf("%v: dead columns are all 0", spec)
				}
			}
		}
	}
}

// storedParams are the step and the offset of one element.
func storedParams(t *testing.T, spec Spec, c gptqCase, out *Output, global float32, row, col int) (step, offset float32) {
	t.Helper()
	quant, f, err := spec.check()
	if err != nil {
		t.Fatal(err)
	}
	width, _ := f.blockShape(c.rows, c.cols)
	block := row*ceilDiv(c.cols, width) + col/width
	if f.Name == "nvfp4" {
		return nvfp4Step(out.Scales[block], global, spec.Convention), 0
	}
	size, _ := quant.stored(f, spec.Convention)
	d := blockDecoder{conv: spec.Convention, scaleBytes: size, scales: out.Scales, mins: out.Mins, rule: int4Rule(spec.Convention, f.MinBits == 0)}
	return d.scale(block), d.offset(block)
}

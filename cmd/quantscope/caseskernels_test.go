package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// caseMatrix reads a tensor of a case, as stored and as numbers.
func caseMatrix(t *testing.T, file, name string) (kernels.Matrix, []float32) {
	t.Helper()
	ck, err := checkpoint.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	x, ok := ck.Lookup(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	m := kernels.Matrix{Element: kernels.F32, Rows: int(x.Shape[0]), Cols: int(x.Shape[1]), Data: make([]byte, x.Size)}
	if x.DType == checkpoint.BF16 {
		m.Element = kernels.BF16
	}
	if err := ck.ReadAt(t.Context(), x, 0, m.Data); err != nil {
		t.Fatal(err)
	}
	vals := make([]float32, x.Elements())
	if err := checkpoint.DecodeF32(vals, x.DType, m.Data); err != nil {
		t.Fatal(err)
	}
	return m, vals
}

// rounded is a matrix after its round trip, the plain way.
func rounded(t *testing.T, spec kernels.Spec, m kernels.Matrix) (decoded []float32, global float32) {
	t.Helper()
	set := kernels.Best()
	amax, err := set.AbsMax(m)
	if err != nil {
		t.Fatal(err)
	}
	pass, err := set.Begin(spec, m.Element, m.Rows, m.Cols, amax)
	if err != nil {
		t.Fatal(err)
	}
	o := room(pass.Sizes(m.Rows))
	if err := pass.Rows(m.Data, &o); err != nil {
		t.Fatal(err)
	}
	decoded = make([]float32, m.Rows*m.Cols)
	if err := kernels.Dequantize(decoded, spec, m.Rows, m.Cols, o.Codes, o.Scales, o.Mins, pass.Global()); err != nil {
		t.Fatal(err)
	}
	return decoded, pass.Global()
}

func room(n kernels.Sizes) kernels.Output {
	return kernels.Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins)}
}

// hashOf is the hash of numbers as cases write it: -0 is +0.
func hashOf(vals []float32) string {
	raw := make([]byte, 0, 4*len(vals))
	for _, v := range vals {
		if v == 0 {
			v = 0
			raw = append(raw, 0, 0, 0, 0)
			continue
		}
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// C23: the short last block of a row has a scale of its own, and no block runs over
// into the next row.
func TestPartialBlocks(t *testing.T) {
	dir := caseDir(t, "C23")
	var e struct {
		Value map[string]struct {
			Right struct {
				SHA256 string `json:"sha256_f32le"`
				First  []float32
			}
			Wrong  string  `json:"wrong_if_blocks_cross_rows_sha256"`
			Global float64 `json:"global_scale"`
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	for name, want := range e.Value {
		m, _ := caseMatrix(t, filepath.Join(dir, "model.safetensors"), name)
		got, global := rounded(t, kernels.Spec{Format: "nvfp4", Convention: kernels.ModelOpt, Method: "rtn"}, m)
		if h := hashOf(got); h != want.Right.SHA256 || h == want.Wrong || !slices.Equal(got[:len(want.Right.First)], want.Right.First) {
			t.Errorf("%s: %s, want %s; %v", name, h, want.Right.SHA256, got[:8])
		}
		if float64(global) != want.Global {
			t.Errorf("%s: global scale %v, want %v", name, global, want.Global)
		}
	}
	q := quantizedCase(t, "--variant", "nvfp4", "--targets", "*", filepath.Join(dir, "model.safetensors"))
	if q.Variants[0].Tensors != 1 || q.Variants[0].Failed != 0 {
		t.Errorf("%+v", q.Variants[0])
	}
}

// C32: GPTQ of an expert whose inputs have dead channels and are fewer than its
// columns, and of one that saw no text at all.
func TestCalibrationCases(t *testing.T) {
	file := filepath.Join(caseDir(t, "C32"), "calib.safetensors")
	spec := kernels.Spec{Format: "int4-channel", Convention: kernels.CT32, Method: "rtn"}
	set := kernels.Best()
	for k, want := range []struct{ tokens, rank, dead int }{{64, 16, 0}, {6, 6, 2}, {0, 0, 16}} {
		expert := "experts." + string(rune('0'+k)) + "."
		m, w := caseMatrix(t, file, expert+"weight")
		in, x := caseMatrix(t, file, expert+"inputs")
		if in.Rows != want.tokens {
			t.Fatalf("%s has %d tokens", expert, in.Rows)
		}
		h, err := kernels.NewDense(m.Cols, m.Cols)
		if err != nil {
			t.Fatal(err)
		}
		if in.Rows > 0 {
			if err := set.SYRK(h, kernels.DenseOperand(kernels.Dense{Rows: in.Rows, Cols: in.Cols, Stride: in.Cols, Data: x}), kernels.GEMMOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		plain, _ := rounded(t, spec, m)
		f, d, err := set.FactorizeDiagnosed(h, kernels.FactorOptions{Order: nil})
		if d.Dead != want.dead || d.Rank != want.rank || d.N != 16 {
			t.Errorf("%s: rank %d, %d dead of %d, want %d and %d", expert, d.Rank, d.Dead, d.N, want.rank, want.dead)
		}
		if want.tokens == 0 {
			if err == nil || !strings.Contains(err.Error(), "dead") && !strings.Contains(err.Error(), "zero") && !strings.Contains(err.Error(), "0") {
				t.Errorf("%s: no tokens, and the factorization says %v", expert, err)
			}
			continue // what is left is plain rounding, reported as such: see TestTooFewTokens of analysis/calibrate
		}
		if err != nil {
			t.Fatalf("%s: %v", expert, err)
		}
		amax, err := set.AbsMax(m)
		if err != nil {
			t.Fatal(err)
		}
		pass, err := set.Begin(spec, m.Element, m.Rows, m.Cols, amax)
		if err != nil {
			t.Fatal(err)
		}
		out := room(pass.Sizes(m.Rows))
		r, err := set.GPTQ(kernels.DenseOperand(kernels.Dense{Rows: m.Rows, Cols: m.Cols, Stride: m.Cols, Data: w}), f, kernels.GPTQOptions{Spec: spec, Amax: amax, Static: true}, &out)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(w))
		if err := kernels.Dequantize(got, spec, m.Rows, m.Cols, out.Codes, out.Scales, out.Mins, r.Global); err != nil {
			t.Fatal(err)
		}
		loss := func(q []float32) (sum float64) {
			for tok := range in.Rows {
				for row := range m.Rows {
					var e float64
					for c := range m.Cols {
						e += (float64(w[row*m.Cols+c]) - float64(q[row*m.Cols+c])) * float64(x[tok*m.Cols+c])
					}
					sum += e * e
				}
			}
			return sum
		}
		if a, b := loss(got), loss(plain); !(a <= b*(1+1e-6)) {
			t.Errorf("%s: loss %g, plain rounding has %g", expert, a, b)
		}
		for i, v := range got {
			if v != v || math.IsInf(float64(v), 0) {
				t.Fatalf("%s: element %d is %v", expert, i, v)
			}
		}
		if k != 1 {
			continue
		}
		kept := false
		for row := range m.Rows {
			for _, c := range []int{5, 9} {
				i := row*m.Cols + c
				kept = kept || got[i] != 0
				if got[i] != plain[i] {
					t.Errorf("a dead channel: [%d,%d] is %v, plain rounding makes it %v", row, c, got[i], plain[i])
				}
			}
		}
		if !kept {
			t.Error("dead channels are all zero")
		}
	}
}

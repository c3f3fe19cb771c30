package candidate

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// reorder is a stored matrix whose row order[r] is row r of the original.
func reorder(x tensor, order []int32) tensor {
	rowBytes := len(x.data) / len(order)
	out := x
	out.data = make([]byte, len(x.data))
	for r, to := range order {
		copy(out.data[int(to)*rowBytes:][:rowBytes], x.data[r*rowBytes:][:rowBytes])
	}
	return out
}

// changed is the demo with tensors changed, as a folder.
func changed(t testing.TB, ref *Candidate, change func(x tensor) tensor) string {
	t.Helper()
	ck := stored(t, ref).ck
	all := readAll(t, ck)
	for i := range all {
		all[i] = change(all[i])
	}
	return writeModel(t, ck.ConfigJSON(), all)
}

func findingsOf(list []Finding, id string) []Finding {
	var out []Finding
	for _, f := range list {
		if f.ID == id {
			out = append(out, f)
		}
	}
	return out
}

func shuffled(n int) []int32 {
	out := make([]int32, n)
	for i, v := range rand.New(rand.NewPCG(5, 6)).Perm(n) {
		out[i] = int32(v)
	}
	return out
}

// Rows in another order are found, named where the order has a name, and put back
// exactly.
func TestPermutations(t *testing.T) {
	ref := open(t, "demo")
	blocks := func(heads, width int, to ...int) []int32 {
		var out []int32
		for h := range heads {
			for r := range width {
				out = append(out, int32(to[h]*width+r))
			}
		}
		return out
	}
	gateUp := map[string]tensor{}
	for _, x := range readAll(t, stored(t, ref).ck) {
		gateUp[x.name] = x
	}
	swap := func(name string) (other string, ok bool) {
		if strings.HasSuffix(name, ".gate_proj.weight") {
			return strings.Replace(name, "gate_proj", "up_proj", 1), true
		}
		return strings.Replace(name, "up_proj", "gate_proj", 1), strings.HasSuffix(name, ".up_proj.weight")
	}
	for name, c := range map[string]struct {
		change func(x tensor) tensor
		n      int // findings
		say    string
	}{
		"rotary pairs": {func(x tensor) tensor {
			switch {
			case strings.HasSuffix(x.name, "layers.1.self_attn.q_proj.weight"):
				return reorder(x, rotaryOrder(4, 32, 32, true))
			case strings.HasSuffix(x.name, "layers.1.self_attn.k_proj.weight"):
				return reorder(x, rotaryOrder(2, 32, 32, true))
			}
			return x
		}, 2, pairsName},
		"rotary halves of a part": {func(x tensor) tensor {
			if strings.HasSuffix(x.name, "layers.3.self_attn.q_proj.weight") {
				return reorder(x, rotaryOrder(4, 32, 16, false))
			}
			return x
		}, 1, pairsName},
		"heads": {func(x tensor) tensor {
			if strings.HasSuffix(x.name, "layers.0.self_attn.q_proj.weight") {
				return reorder(x, blocks(4, 32, 2, 0, 3, 1))
			}
			return x
		}, 1, headsName + ": the reference's are its heads [2 0 3 1]"},
		"gate and up": {func(x tensor) tensor {
			if other, ok := swap(x.name); ok && strings.HasPrefix(x.name, "model.layers.0.mlp") {
				x.data = gateUp[other].data
			}
			return x
		}, 1, swappedName},
		"gate and up of all experts of a layer": {func(x tensor) tensor {
			if other, ok := swap(x.name); ok && strings.HasPrefix(x.name, "model.layers.2.mlp.experts") {
				x.data = gateUp[other].data
			}
			return x
		}, 16, swappedName},
		"gate and up alternating": {func(x tensor) tensor {
			if !strings.HasPrefix(x.name, "model.layers.0.mlp") || x.name == "model.layers.0.mlp.down_proj.weight" {
				return x
			}
			gate, up := gateUp["model.layers.0.mlp.gate_proj.weight"], gateUp["model.layers.0.mlp.up_proj.weight"]
			both := tensor{data: append(bytes.Clone(gate.data), up.data...)}
			order := make([]int32, 2*384)
			for r := range order {
				order[r] = int32(2*(r%384) + r/384)
			}
			both = reorder(both, order)
			if x.data = both.data[:len(x.data)]; strings.Contains(x.name, "up_proj") {
				x.data = both.data[len(x.data):]
			}
			return x
		}, 1, mixedName},
		"any order": {func(x tensor) tensor {
			if x.name == "model.layers.4.self_attn.v_proj.weight" || x.name == "model.embed_tokens.weight" {
				return reorder(x, shuffled(int(x.shape[0])))
			}
			return x
		}, 2, "that has no name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := changed(t, ref, c.change)
			found := findingsOf(mustParse(t, ref, dir, Options{}).Findings, Permuted)
			if len(found) != c.n {
				t.Fatalf("%d findings, want %d: %v", len(found), c.n, found)
			}
			for _, f := range found {
				if !strings.Contains(f.Message, c.say) || f.Tensor == "" || strings.Contains(f.Message, "\n") {
					t.Errorf("%+v does not say %q", f, c.say)
				}
			}
			back := mustParse(t, ref, dir, Options{Recover: true})
			for _, f := range findingsOf(back.Findings, Permuted) {
				if !strings.HasSuffix(f.Message, "; undone here") {
					t.Errorf("%+v does not say that it was undone", f)
				}
			}
			compareAll(t, back, ref)
			s, rows := source(t, back), []int32{7, 0, 1023}
			got, want := make([]float32, 3*128), make([]float32, 3*128)
			if err := s.Rows(t.Context(), embeddingAt, rows, got); err != nil {
				t.Fatal(err)
			}
			if err := source(t, ref).Rows(t.Context(), embeddingAt, rows, want); err != nil {
				t.Fatal(err)
			}
			sameBits(t, "embeddings", got, want)
		})
	}
}

// Quantizing, noise, other weights and NaN are no permutations; columns in another
// order are said to be what they may be.
func TestNoPermutation(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	quiet := func(name string, c *Candidate) {
		t.Helper()
		found, err := Compare(t.Context(), ref, c)
		if err != nil || len(found) != 0 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	quiet("int4", open(t, exported(t, x.ck, x.top, "re:model.layers.[01].", export.Own, "int4-g128")))
	quiet("nvfp4 on the fly", mustParse(t, ref, "nvfp4@all", Options{}))
	r := rand.New(rand.NewPCG(8, 9))
	noise := func(share float32) func(x tensor) tensor {
		return func(x tensor) tensor {
			if x.dtype != checkpoint.BF16 || len(x.shape) != 2 || !strings.Contains(x.name, "layers.0.") {
				return x
			}
			v := make([]float32, len(x.data)/2)
			if err := kernels.DecodeFloats(v, kernels.BF16, x.data); err != nil {
				t.Fatal(err)
			}
			var sum float64
			for _, w := range v {
				sum += float64(w) * float64(w)
			}
			scale := float32(sum/float64(len(v))) + 1e-9
			for i := range v {
				v[i] = (1-share)*v[i] + share*float32(r.NormFloat64())*float32(math.Sqrt(float64(scale)))
			}
			x.data = make([]byte, len(x.data))
			if err := kernels.Best().EncodeFloats(x.data, kernels.BF16, v); err != nil {
				t.Fatal(err)
			}
			return x
		}
	}
	quiet("noise", open(t, changed(t, ref, noise(0.5))))
	quiet("other weights", open(t, changed(t, ref, noise(1))))
	quiet("NaN", open(t, changed(t, ref, func(x tensor) tensor {
		if x.name == "model.layers.1.self_attn.q_proj.weight" {
			x.data = bytes.Clone(x.data)
			binary.LittleEndian.PutUint16(x.data[40:], 0x7FC0)
		}
		return x
	})))
	columns := open(t, changed(t, ref, func(x tensor) tensor {
		if x.name != "model.layers.1.self_attn.o_proj.weight" {
			return x
		}
		data := make([]byte, len(x.data))
		for i := range len(data) / 2 {
			row, col := i/128, i%128
			copy(data[2*(row*128+(col+32)%128):][:2], x.data[2*i:])
		}
		x.data = data
		return x
	}))
	found, err := Compare(t.Context(), ref, columns)
	if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].Message, headsName+": the reference's are its heads [1 2 3 0], in the columns") {
		t.Errorf("columns: %v, %v", found, err)
	}
}

// Rows in another order are found through four-bit codes, too.
func TestQuantizedPermutation(t *testing.T) {
	ref := open(t, "demo")
	dir := changed(t, ref, func(x tensor) tensor {
		switch {
		case strings.HasSuffix(x.name, "layers.1.self_attn.q_proj.weight"):
			return reorder(x, rotaryOrder(4, 32, 32, true))
		case strings.HasSuffix(x.name, "layers.2.self_attn.v_proj.weight"):
			return reorder(x, shuffled(64))
		}
		return x
	})
	turned := stored(t, open(t, dir))
	for layout, scheme := range map[string]string{export.ModelOpt: "nvfp4", export.Own: "int4-g128"} {
		c := mustParse(t, ref, exported(t, turned.ck, turned.top, "re:model.layers.[12].self_attn", layout, scheme), Options{})
		found := findingsOf(c.Findings, Permuted)
		if len(found) != 2 || !strings.Contains(found[0].Message+found[1].Message, pairsName) || !strings.Contains(found[0].Message+found[1].Message, "rows that has no name") {
			t.Errorf("%s: %v", scheme, found)
		}
	}
}

// Biases of rows in another order go with them.
func TestPermutedBiases(t *testing.T) {
	ref := open(t, "../model/testdata/qwen2")
	order := func(n int) []int32 { // heads of 16 rows, the first after the others
		out := make([]int32, n)
		for r := range out {
			out[r] = int32((r + 16) % n)
		}
		return out
	}
	dir := changed(t, ref, func(x tensor) tensor {
		if strings.Contains(x.name, "layers.1.self_attn.q_proj.") {
			return reorder(x, order(int(x.shape[0])))
		}
		return x
	})
	back := mustParse(t, ref, dir, Options{Recover: true})
	if found := findingsOf(back.Findings, Permuted); len(found) != 1 || !strings.Contains(found[0].Message, headsName) {
		t.Fatalf("%v", found)
	}
	at := model.Place{Kind: topology.Attention, Layer: 1, Expert: -1, Projection: "q"}
	got, err := source(t, back).Vector(t.Context(), at, "bias")
	if err != nil {
		t.Fatal(err)
	}
	want, err := source(t, ref).Vector(t.Context(), at, "bias")
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "biases", got, want)
	compareAll(t, back, ref)
}

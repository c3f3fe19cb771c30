package candidate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// A model that mlx_lm quantized, in affine of three widths, mxfp4, nvfp4 with a
// scale an expert and mxfp8, is what mlx.core.dequantize makes of it, embedding and
// experts included; what stays in floating point is the source's.
func TestMLXModel(t *testing.T) {
	ref, c := open(t, "../model/testdata/qwen3_moe"), open(t, "testdata/mlx")
	text, err := os.ReadFile("testdata/mlx/dequantized.sha256.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Findings {
		t.Errorf("finding %+v", f)
	}
	checkModules(t, c)
	s := source(t, c)
	for name, sum := range want {
		h := sha256.New()
		for _, p := range mlxPlaces(t, name) {
			h.Write(bitsOf(t, s, p))
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != sum {
			t.Errorf("%s is not what mlx dequantizes it to", name)
		}
	}
	if len(want) != 14 {
		t.Errorf("%d matrices, want 14", len(want))
	}
	// The down projections have 24 inputs, which MLX leaves alone.
	for e := range 8 {
		p := model.Place{Kind: topology.Expert, Layer: 1, Expert: e, Projection: "down"}
		if string(bitsOf(t, s, p)) != string(bitsOf(t, source(t, ref), p)) {
			t.Errorf("%s is not the source's", p)
		}
	}
	for _, scheme := range []string{"mlx-int4-g32", "mlx-int6-g32", "mlx-int3-g64", "mxfp4", "nvfp4", "mxfp8", "bf16"} {
		if !strings.Contains(c.Effective, scheme) {
			t.Errorf("%s has no %s", c.Effective, scheme)
		}
	}
	// The matrices are close to the source's, so that nothing is mixed up.
	found, err := Compare(t.Context(), ref, c)
	if err != nil || len(found) != 0 {
		t.Errorf("%v %v", found, err)
	}
}

// mlxPlaces are the places of an MLX module: of all experts where it has them.
func mlxPlaces(t *testing.T, name string) []model.Place {
	t.Helper()
	switch name {
	case "lm_head":
		return []model.Place{headAt}
	case "model.embed_tokens":
		return []model.Place{embeddingAt}
	}
	var layer int
	rest, _ := strings.CutPrefix(name, "model.layers.")
	if _, err := fmt.Sscanf(rest, "%d.", &layer); err != nil {
		t.Fatal(err)
	}
	last := strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "_proj")
	if !strings.Contains(name, "switch_mlp") {
		return []model.Place{{Kind: topology.Attention, Layer: layer, Expert: -1, Projection: last}}
	}
	var out []model.Place
	for e := range 8 {
		out = append(out, model.Place{Kind: topology.Expert, Layer: layer, Expert: e, Projection: last})
	}
	return out
}

// bitsOf are the values at a place as f32, with no signs of zeros.
func bitsOf(t *testing.T, s model.Source, p model.Place) []byte {
	t.Helper()
	defer s.Release()
	w, err := s.Weight(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]float32, w.Rows*w.Cols)
	if err := kernels.Best().ExpandRows(all, w.Operand, 0); err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, v := range all {
		if v == 0 {
			v = 0
		}
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

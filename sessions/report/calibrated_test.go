package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"quantscope/analysis/calibrate"
	"quantscope/sessions"
)

// A calibrated variant is a line of a table, its layers with experts those of
// another; names are text whatever they hold, and a session without has neither.
func TestCalibrated(t *testing.T) {
	trade := calibrate.Trade{Codes: 200, Changed: 50, Out2: 0.004, BaseOut2: 0.008, Rel2: 0.012, BaseRel2: 0.01, DampShare: 0.25}
	fell := calibrate.Trade{Why: "no token", Out2: calibrate.Float(math.NaN())}
	st := &sessions.State{
		Tensors: make([]sessions.Tensor, 2), Variants: []sessions.Variant{{Name: "int4-g128+gptq", Scheme: "int4-g128"}}, Records: [][]sessions.Record{make([]sessions.Record, 2)},
		Calibrations: []*sessions.Calibration{{
			Setup: sessions.CalibrationSetup{
				Corpus: "text<script>", CorpusSHA: strings.Repeat("ab", 32), Tokens: 12345, Units: []string{"layer 1", "mtp 2"},
				Rank: calibrate.RankBound{Inner: 512, Experts: 64, TopK: 2, Tokens: 12345, Need: 16384},
			},
			Units: []sessions.CalibUnit{
				{Unit: "layer 1", Matrices: []sessions.CalibMatrix{{Tensor: 0, Trade: trade}}, Counts: []calibrate.Counts{{Layer: 1, Expert: []int64{0, 7, 1200, 9}}}},
				{Unit: "mtp 2", Matrices: []sessions.CalibMatrix{{Tensor: 1, Trade: fell}}, Counts: []calibrate.Counts{{Layer: 2, MTP: true, Expert: []int64{4, 4, 4, 5}}}},
			},
			End: &sessions.CalibrateEnd{State: sessions.RunFinished, FellBack: 1, Params: 4, Gate: "nothing changed"},
		}},
	}
	r, err := Build(t.Context(), st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	html := out.String()
	for _, want := range []string{"What calibration traded", "0.004", "0.008", "50", "25", "failed: nothing changed", "12,345 tokens of text&lt;script&gt; (sha256 abababababab), 2 of 2 units", "16,384 are needed (512·64/2)", "Tokens of experts, int4-g128", ">L1<", ">M2<", ">1200<"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(html, "text<script>") {
		t.Error("a name is taken for markup")
	}
	without, err := Build(t.Context(), &sessions.State{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := without.WriteHTML(&out); err != nil || strings.Contains(out.String(), "What calibration traded") {
		t.Errorf("a session without calibrations: %v", err)
	}
}

package calibrate

import (
	"bytes"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/export"
)

// TestForged: what a folder says that calibration changed is not believed where its
// codes are the baseline's, though all its digests hold.
func TestForged(t *testing.T) {
	for _, v := range []string{"int4-g64+gptq", "nvfp4+mse_ge1+gptq", "code2+imatrix", "code2+sym+gptq"} {
		s := setup(t, demoReference(t), v, `re:model\.layers\.[12]\.mlp\.experts\.[0-3]\.`, 4)
		s.Globals = export.Shared
		hookCalibrated = func(k *making) (codes.Matrix, kernels.Tap, error) { return k.encode(k.base, nil) }
		plain, forged := t.TempDir(), t.TempDir()
		out := into(t, s, plain, Sink{})
		hookCalibrated = nil
		from, err := codes.Open(plain)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		chunks, err := from.Chunks()
		if err != nil {
			t.Fatal(err)
		}
		to, err := codes.Create(forged, from.Manifest(), chunks)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range from.Manifest().Units {
			list, note, err := from.Unit(unit)
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				list[i].Figures = bytes.Replace(list[i].Figures, []byte(`"changed":0`), []byte(`"changed":7`), 1)
			}
			if err := to.Put(unit, list, note); err != nil {
				t.Fatal(err)
			}
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		s.Codes = forged
		j, err := Prepare(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if out.Gate() == nil {
			t.Error("the codes are not the baseline's")
		}
		_, err = j.Run(t.Context(), Sink{})
		if err == nil || !strings.Contains(err.Error(), "7 codes and parameters are said not to be those of "+j.base.Name+", and 0 are not") {
			t.Errorf("%s: %v", v, err)
		}
		// What was really calibrated is read back under shared scales too.
		real := t.TempDir()
		into(t, s, real, Sink{})
		if err := into(t, s, real, Sink{}).Gate(); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
}

package sessions

import (
	"errors"
	"math"
	"testing"
)

// TestDemo runs the real thing: the embedded checkpoint, real kernels.
func TestDemo(t *testing.T) {
	path := sessionPath(t)
	l, err := Start(t.Context(), Options{Checkpoint: "demo", Session: path, Variants: []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1"}, Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if p.State != RunFinished || p.Done != 720 || p.Total != 720 {
		t.Fatalf("%+v", p)
	}
	st := openState(t, path)
	for _, e := range st.Log {
		if e.Kind == EventFinding || e.Kind == EventFailed {
			t.Errorf("%+v", e)
		}
	}
	var sums [3]Summary
	for v := range st.Variants {
		sums[v] = Summarize(st, v)
		t.Logf("%+v", sums[v])
	}
	if sums[2].DeepBlocks != 0 || sums[1].DeepBlocks == 0 {
		t.Errorf("deep clips: mse %v, mse_ge1 %v", sums[1].DeepBlocks, sums[2].DeepBlocks)
	}
	for i := range st.Tensors {
		if r := st.Records; !(r[1][i].Rel2 < r[0][i].Rel2 && r[2][i].Rel2 < r[0][i].Rel2) {
			t.Errorf("%s: rel2 %v, mse %v, mse_ge1 %v", st.Tensors[i].Name, r[0][i].Rel2, r[1][i].Rel2, r[2][i].Rel2)
		}
	}

	// A saved session finds its checkpoint again.
	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	st = f.Snapshot()
	rows, err := f.RowErrors(t.Context(), 1, 17)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != st.Tensors[17].Rows {
		t.Fatalf("%d rows of %d", len(rows), st.Tensors[17].Rows)
	}
	tap, err := f.Detail(t.Context(), 1, 17)
	if err != nil {
		t.Fatal(err)
	}
	if r := st.Records[1][17]; r.RelL2 != tap.RelL2() || r.Cos != tap.Cos() {
		t.Errorf("record and detail differ")
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		lo, hi = min(lo, r), max(hi, r)
	}
	if whole := tap.RelL2(); !(lo <= whole && whole <= hi) {
		t.Errorf("rows from %g to %g, the whole %g", lo, hi, whole)
	}
}

package sessions

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
)

// One block whose scale underflows is reported, none is not.
func TestUnderflowIsReportedFromOneBlockOn(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(3)
	parse := job.Parse
	job.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		measure, n := q.Measure, int64(0)
		q.Measure = func(m kernels.Matrix) (Measurement, error) { // with one thread in the order of the tensors
			got, err := measure(m)
			got.Tap.ScaleLow = n
			n++
			return got, err
		}
		return q, err
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	got := map[int64]string{}
	for _, e := range st.Log {
		if e.Kind == EventFinding && strings.Contains(e.Message, "underflow") {
			_, what, _ := strings.Cut(e.Message, `": `)
			got[st.Records[0][e.Tensor].ScaleLow] = what
		}
	}
	const what = " of 16 block scales underflow and are raised to the least that can be stored, which no cosine shows"
	if diff := cmp.Diff(map[int64]string{1: "1" + what, 2: "2" + what}, got); diff != "" {
		t.Error(diff)
	}
}

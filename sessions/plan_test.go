package sessions

import (
	"strings"
	"testing"
	"time"
)

// TestPlan: as many workers as the source can feed, and a few that read ahead as
// long as that makes it faster.
func TestPlan(t *testing.T) {
	const nano = 1e-9
	for _, c := range []struct {
		name        string
		threads     int
		seen        []rates
		hands, more int
	}{
		{"a disk that feeds a fifth of one thread", 8, []rates{{read: 2e8, perByte: nano}}, 1, 1},
		{"a network store that gains from requests", 8, []rates{{read: 2e8, perByte: nano}, {read: 4e8, perByte: nano}, {read: 8e8, perByte: nano}}, 1, 4},
		{"one that gained once", 8, []rates{{read: 2e8, perByte: nano}, {read: 4e8, perByte: nano}, {read: 4.1e8, perByte: nano}}, 1, 2},
		{"one that became slower", 8, []rates{{read: 2e8, perByte: nano}, {read: 4e8, perByte: nano}, {read: 2e8, perByte: nano}}, 1, 1},
		{"never more ahead than some", 64, []rates{{read: 1e8}, {read: 2e8}, {read: 4e8}, {read: 8e8}, {read: 16e8}, {read: 32e8}}, 64, maxAhead},
		{"a source that feeds three of four", 4, []rates{{read: 2e9, perByte: 1.2 * nano}}, 3, 1},
		{"kernels that are slower than one reader", 2, []rates{{read: 5e9, perByte: nano}}, 2, 0},
	} {
		p := plan{threads: c.threads, hands: c.threads}
		for _, r := range c.seen {
			p.decide(r)
		}
		if p.hands != c.hands || p.ahead != c.more {
			t.Errorf("%s: %d workers and %d ahead, want %d and %d", c.name, p.hands, p.ahead, c.hands, c.more)
		}
	}
}

// TestMeter: reads that overlap count their time once, kernels by variant.
func TestMeter(t *testing.T) {
	var m meter
	m.passed(1, 3e9, 1.5e9, 2*time.Second)
	m.passed(1, 1e9, 0.5e9, 2*time.Second)
	now := time.Now()
	m.active, m.since = 2, now.Add(-3*time.Second)
	m.read(now.Add(-3*time.Second), 3e9)
	m.read(now.Add(-time.Second), 3e9)
	r := m.rates()
	if r.read < 1.9e9 || r.read > 2e9 || r.measured != 6e9 {
		t.Errorf("read %v of %d", r.read, r.measured)
	}
	if len(r.kernels) != 2 || r.kernels[0] != 0 || r.kernels[1] != 1e9 {
		t.Errorf("kernels %v", r.kernels)
	}
	if want := 4.0 / 6e9; r.perByte != want {
		t.Errorf("%v seconds a byte, want %v", r.perByte, want)
	}
	if m.bytes.Load() != 4e9 || m.weights.Load() != 2e9 || m.partial.Load() != 2e9 {
		t.Errorf("%d bytes, %d weights, %d of them open", m.bytes.Load(), m.weights.Load(), m.partial.Load())
	}
	for r, want := range map[float64]string{1.5e9: "1.50 GB/s", 2e6: "2 MB/s", 10: "0 kB/s"} {
		if got := byteRate(r); got != want {
			t.Errorf("%v is %q, want %q", r, got, want)
		}
	}
}

// TestTheLogSaysThePace of a run that read enough to know it.
func TestTheLogSaysThePace(t *testing.T) {
	job, _ := fakeJob(3)
	q, err := job.Parse("f1")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{job: job, variants: []Quantizer{q}}
	e.plan.threads, e.plan.hands, e.plan.ahead = 4, 3, 1
	if said, pace := e.plan.said(e); said != "" || pace != nil {
		t.Errorf("nothing was read, and it says %q", said)
	}
	e.meter.readBytes, e.meter.readWall = reviewBytes, time.Second
	e.meter.kernels = []kernelTime{{bytes: 2e9, nanos: 1e9}}
	said, pace := e.plan.said(e)
	if want := "source read at 67 MB/s; a thread does f1 2.00 GB/s; 3 of 4 threads useful, 1 ahead"; said != want {
		t.Errorf("%q, want %q", said, want)
	}
	if pace == nil || pace.Workers != 3 || pace.Ahead != 1 || pace.Kernels["f1"] != 2e9 || pace.ReadBytesPerSec != reviewBytes {
		t.Errorf("%+v", pace)
	}
}

// TestRatesBetweenRecords: a live run shows what goes through the kernels, not
// only what was recorded, and so does its end.
func TestRatesBetweenRecords(t *testing.T) {
	tr := newTracker([]Tensor{{Rows: 1000, Cols: 1000, DType: "BF16"}})
	tr.meter = new(meter)
	tr.observe(&stored{Event: Event{Kind: EventVariant, AtUS: 0}})
	tr.observe(&stored{Event: Event{Kind: EventStarted, AtUS: 0, Variant: -1, Tensor: -1}})
	tr.progress(0)
	tr.meter.passed(0, 500_000, 250_000, time.Second)
	p := tr.progress(1_000_000)
	if p.BytesPerSec != 500_000 || p.WeightsPerSec != 250_000 || p.ETASeconds != 3 || p.Done != 0 {
		t.Errorf("%+v", p)
	}
	tr.meter.passed(0, 1_500_000, 750_000, time.Second)
	tr.meter.partial.Store(0)
	tr.observe(&stored{Event: Event{Kind: EventTap, AtUS: 2_000_000}})
	if p := tr.progress(2_000_000); p.BytesPerSec != 1_000_000 || p.ETASeconds != 0 || p.Done != 1 {
		t.Errorf("%+v", p)
	}
}

// TestRefusedConvention names what there is.
func TestRefusedConvention(t *testing.T) {
	o := Options{Compat: "ct", Variants: []string{"nvfp4"}}
	v, err := o.variant("nvfp4")
	if err != nil || v.Spec.Convention.String() != "ct" || o.convention() != "ct" {
		t.Errorf("%v, %v", v.Spec.Convention, err)
	}
	o.Compat = ""
	if v, err := o.variant("int4-g128"); err != nil || v.Spec.Convention.String() != "own" || o.convention() != "modelopt" {
		t.Errorf("%v, %v", v.Spec.Convention, err)
	}
	o.Export = &ExportOptions{Layout: "compressed-tensors"}
	if v, err := o.variant("nvfp4"); err != nil || v.Spec.Convention.String() != "ct32" || o.convention() != "ct32" {
		t.Errorf("%v, %v", v.Spec.Convention, err)
	}
	o.Compat = "deepseek"
	if _, err := o.variant("int4-g128"); err == nil || !strings.Contains(err.Error(), "known: own") {
		t.Errorf("%v", err)
	}
}

package sessions

import (
	"errors"
	"testing"

	"quantscope/analysis/gates/local"
	"quantscope/kernels"
)

// Where a suite measures acceptance arms draft one token a step, unless it is said
// otherwise; where none does they draft what is said; an arm that cannot drafts nothing
// where nobody asked for it, and is refused where somebody did. Greedy texts are asked
// for once, whatever the passes.
func TestDraftsOfASuite(t *testing.T) {
	for name, c := range map[string]struct {
		r       GatesRequest
		want    int
		setting string
	}{
		"measures":               {GatesRequest{Suite: "twobit"}, 1, "1"},
		"measures, said":         {GatesRequest{Suite: "twobit", Local: local.Options{Speculate: 3}}, 3, "3"},
		"measures, none":         {GatesRequest{Suite: "twobit", NoDrafts: true}, 0, "0"},
		"measures, left out":     {GatesRequest{Suite: "twobit", Probes: "facts"}, 0, ""},
		"does not":               {GatesRequest{Suite: "demo", Probes: "facts"}, 0, ""},
		"does not, none":         {GatesRequest{Suite: "demo", Probes: "facts", NoDrafts: true}, 0, ""},
		"measures, of one probe": {GatesRequest{Suite: "twobit", Probes: "acceptance", Passes: 4}, 1, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.r
			r.KernelSet, r.Threads = kernels.Best(), 1
			p, err := r.open(t.Context(), "demo", "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := p.close(); err != nil {
					t.Error(err)
				}
			}()
			if p.settings[GateSpeculate] != c.setting {
				t.Errorf("recorded as %q, want %q", p.settings[GateSpeculate], c.setting)
			}
			for _, q := range p.suite.Probes {
				if q.Measure && q.Passes != 1 {
					t.Errorf("%s is asked %d times", q.ID, q.Passes)
				}
			}
			drafted := func() (int, error) {
				target, err := p.arms[0].Open(t.Context())
				if err != nil {
					return 0, err
				}
				id, err := target.Identity(t.Context())
				return id.Speculative, errors.Join(err, target.Close())
			}
			if k, err := drafted(); err != nil || k != c.want {
				t.Errorf("%d tokens a step, want %d: %v", k, c.want, err)
			}
			// The same without a layer that drafts.
			p.ref.Arch.MTP = nil
			arm := p.inProcess(p.ref, "none", "demo", &GatesRequest{Local: local.Options{Speculate: c.want}, KernelSet: kernels.Best(), Threads: 1})
			target, err := arm.Open(t.Context())
			switch {
			case p.drafts && err != nil, !p.drafts && (err == nil) != (c.want == 0):
				t.Errorf("without a layer: %v", err)
			case err == nil:
				if id, err := target.Identity(t.Context()); err != nil || id.Speculative != 0 {
					t.Errorf("without a layer: %d, %v", id.Speculative, err)
				}
				if err := target.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

package views

import (
	"fmt"
	"math"

	"quantscope/analysis/census"
	"quantscope/analysis/lint"
	"quantscope/sessions"
)

// madeUpCensus is a census of layers of so many experts, every third pair of
// which differs, and of their attention; proof says whether it has one.
func madeUpCensus(layers, experts int, proof bool) *census.Report {
	r := &census.Report{Path: "out", Layout: "modelopt", Convention: "multiplier"}
	if proof {
		r.Master, r.Proof = "demo", &census.ProofSum{}
	}
	n := noise(5)
	all := sums{}
	add := func(l *census.Layer, expert int, projections []string, differ bool) {
		g := census.Group{Expert: expert}
		for i, name := range projections {
			m := census.Member{Name: auditName(l, expert, name), Projection: name, Scale: 1.5e-4, Ratio: 1}
			if differ && i > 0 {
				m.Ratio = math.Exp(0.1 * n.normal())
				m.Scale *= m.Ratio
				m.Change = math.Abs(1/m.Ratio - 1)
				g.Differ = true
				if proof {
					p := census.Proof{Member: m.Name, Stored: 0.095, Served: math.Hypot(0.095, m.Ratio-1), Compensated: 0.0955, RoundingCost: 0.0005, Scales: 1024, Clamped: int64(4 * n.next() * n.next())}
					g.Proof = append(g.Proof, p)
				}
			}
			g.Members = append(g.Members, m)
		}
		l.Groups = append(l.Groups, g)
		l.Pairs++
		if g.Differ {
			l.Differing++
		}
	}
	for i := range layers {
		moe := census.Layer{Layer: i + 1, Set: "gate and up", Kind: "expert", MTP: i == layers-1 && layers > 1}
		for e := range experts {
			add(&moe, e, []string{"gate", "up"}, e%3 == i%2 && i != 2)
		}
		attention := census.Layer{Layer: i + 1, Set: "q, k and v", Kind: "attention"}
		add(&attention, -1, []string{"q", "k", "v"}, i == 1)
		for _, l := range []*census.Layer{&attention, &moe} {
			of := sums{}
			of.take(l)
			all.take(l)
			l.RatioMin, l.RatioMean, l.RatioMax = of.ratios()
			l.Proof = of.proof(proof)
			r.Pairs += l.Pairs
			r.Differing += l.Differing
			r.Layers = append(r.Layers, *l)
		}
	}
	r.RatioMin, r.RatioMean, r.RatioMax = all.ratios()
	r.Proof = all.proof(proof)
	return r
}

func auditName(l *census.Layer, expert int, projection string) string {
	if expert < 0 {
		return fmt.Sprintf("model.layers.%d.self_attn.%s_proj", l.Layer, projection)
	}
	return fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj", l.Layer, expert, projection)
}

// sums adds up what differs.
type sums struct {
	n        int
	logs     float64
	min, max float64
	f        census.ProofSum
}

func (s *sums) take(l *census.Layer) {
	for _, g := range l.Groups {
		for _, m := range g.Members {
			if m.Ratio == 1 {
				continue
			}
			if s.n == 0 {
				s.min, s.max = m.Ratio, m.Ratio
			}
			s.n++
			s.min, s.max, s.logs = min(s.min, m.Ratio), max(s.max, m.Ratio), s.logs+math.Log(m.Ratio)
		}
		for _, p := range g.Proof {
			s.f.Members++
			s.f.Served += p.Served
			s.f.Stored += p.Stored
			s.f.Compensated += p.Compensated
			s.f.ServedWorst = max(s.f.ServedWorst, p.Served)
			s.f.Clamped += p.Clamped
			s.f.Scales += p.Scales
		}
	}
}

func (s *sums) ratios() (lo, mean, hi float64) {
	if s.n == 0 {
		return 0, 0, 0
	}
	return s.min, math.Exp(s.logs / float64(s.n)), s.max
}

func (s *sums) proof(has bool) *census.ProofSum {
	if !has || s.f.Members == 0 {
		return nil
	}
	f, n := s.f, float64(s.f.Members)
	f.Served, f.Stored, f.Compensated = f.Served/n, f.Stored/n, f.Compensated/n
	return &f
}

// madeUpFindings are what lint may say.
func madeUpFindings() []lint.Finding {
	return []lint.Finding{
		{ID: "globals-differ", Severity: lint.Error, File: "model.safetensors", Tensor: "model.layers.1.mlp.experts.3.up_proj.weight_scale_2",
			Message: "layer 1: in 6 of 16 blocks gate and up have different second-level scales: expert 3 up/gate 1.2, …; a server that keeps one for all decodes the others off by that factor",
			Fix:     "quantize these tensors again with one second-level scale over what a server fuses"},
		{ID: "structure", Severity: lint.Warning, File: "model.safetensors", Tensor: "model.layers.9.mlp.router.weight", Message: "is not known", Fix: "compare config.json with the source checkpoint's"},
	}
}

// auditScene looks at an export of the demo.
func auditScene(s *Scene, r *census.Report, findings []lint.Finding) *Scene {
	s.Audits = AuditWork{Subjects: []AuditSubject{
		{Dir: "/data/out", What: AuditExport, Path: "out", Audit: &sessions.Audit{Path: "/data/out", Census: r, Findings: findings}},
		{What: AuditOwn, Path: "demo"},
	}}
	return s
}

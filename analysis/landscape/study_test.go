package landscape

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantscope/analysis/stats"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// Without plants nothing is found, in any role, and p values of the experts are
// uniform.
func TestFlat(t *testing.T) {
	const seeds = 200
	var mu sync.Mutex
	var p, adjusted []float64
	alarms := 0
	each(seeds, func(seed int) {
		r := analyzed(t, measure(t, demo.Synth{Layers: 4, Experts: 8, Hidden: 32, Intermediate: 32, Seed: uint64(seed)}))
		mu.Lock()
		defer mu.Unlock()
		p = append(p, r.Groups[0].Anova.P.V)
		adjusted = append(adjusted, r.Groups[0].Anova.AdjustedP.V)
		found := false
		for _, g := range r.Groups {
			switch g.Verdict.Kind {
			case Structured:
				found = true
				t.Logf("seed %d, %s: %s", seed, g.Role, g.Verdict.Sentence)
			case Unknown:
				if g.Role != "dense MLP" { // three matrices
					t.Errorf("seed %d, %s: %s", seed, g.Role, g.Verdict.Sentence)
				}
			case Flat:
				if !strings.HasPrefix(g.Verdict.Sentence, "flat: the worst ") || len(g.Verdict.Effects) > 0 || g.Verdict.Pays {
					t.Errorf("seed %d, %s: %s", seed, g.Role, g.Verdict.Sentence)
				}
			}
		}
		if found {
			alarms++
		}
	})
	if alarms > seeds/100 {
		t.Errorf("something was found in %d of %d flat checkpoints, want 1 in 100 at most", alarms, seeds)
	}
	for name, p := range map[string][]float64{"p": p, "adjusted p": adjusted} {
		if ks := stats.KSUniform(p); !(ks.P > 0.01) {
			t.Errorf("%s is not uniform over %d seeds: D %v, p %v", name, len(p), ks.D, ks.P)
		}
	}
}

// Each kind of plant is found and named, with an interval that holds the
// planted factor, and nothing else is.
func TestPlantsAreFound(t *testing.T) {
	flat := demo.Synth{Layers: 8, Experts: 16, Hidden: 64, Intermediate: 64, Seed: 1}
	for _, c := range []struct {
		plant string
		want  map[string]float64 // by the name of the effect; "tail" for one
		pays  bool
	}{
		{"layer=5:1.06", map[string]float64{"L5": 1.06}, false},
		{"layer=5:0.94", map[string]float64{"L5": 0.94}, false},
		{"expert=7:1.04", map[string]float64{"expert 7": 1.04}, false},
		{"projection=down:1.02", map[string]float64{"down": 1.02}, false},
		{"tail=0.01:1.5", map[string]float64{"tail": 1.5}, true},
		{"layer=5:1.06,expert=7:1.04,projection=down:1.02,tail=0.01:1.5", map[string]float64{"L5": 1.06, "expert 7": 1.04, "down": 1.02, "tail": 1.5}, true},
	} {
		t.Run(c.plant, func(t *testing.T) {
			t.Parallel()
			s := flat
			s.Plants = plants(t, c.plant)
			g := &analyzed(t, measure(t, s, topology.Expert)).Groups[0]
			if g.Verdict.Kind != Structured || len(g.Verdict.Effects) != len(c.want) || g.Verdict.Pays != c.pays {
				t.Errorf("pays %v: %s", g.Verdict.Pays, g.Verdict.Sentence)
			}
			for _, e := range g.Verdict.Effects {
				key := e.Name
				if e.Kind == "tail" {
					key = e.Kind
				}
				want, ok := c.want[key]
				if !ok || !(e.Ratio.Low <= want && want <= e.Ratio.High) || !strings.Contains(g.Verdict.Sentence, e.Name+" ×") {
					t.Errorf("%s %s, planted was %v: %s", e.Name, ratioText(e.Ratio), c.want, g.Verdict.Sentence)
				}
			}
			if _, planted := c.want["tail"]; planted {
				want, err := s.Tail()
				got := slices.Sorted(slices.Values(g.Tail.Tensors))
				if slices.Sort(want); err != nil || !slices.Equal(got, want) {
					t.Errorf("tail of %v, planted was %v", got, want)
				}
			}
		})
	}
}

// What is too small to matter is said and not named.
func TestTooSmall(t *testing.T) {
	s := demo.Synth{Layers: 20, Experts: 24, Hidden: 64, Intermediate: 64, Seed: 4, Plants: plants(t, "projection=down:1.008")}
	v := analyzed(t, measure(t, s, topology.Expert)).Groups[0].Verdict
	if v.Kind != Flat || !strings.Contains(v.Sentence, "(1 projection) are real and too small to matter") {
		t.Error(v.Sentence)
	}
}

// poolMatrices is how many matrices of each size and factor a study draws from;
// with -short a few, since then nobody reads the figures.
func poolMatrices() int {
	if testing.Short() {
		return 30
	}
	return 3000
}

var pools sync.Map

// draw measures them, once.
func draw(b *testing.B, size int, factor float64) []float64 {
	b.Helper()
	key := fmt.Sprintf("%d:%v", size, factor)
	if have, ok := pools.Load(key); ok {
		return have.([]float64)
	}
	s := demo.Synth{Layers: 1, Experts: poolMatrices() / 3, Hidden: size, Intermediate: size, Seed: 77}
	if factor != 1 {
		s.Plants = []demo.Plant{{Kind: demo.PlantLayer, Index: 0, Factor: factor}}
	}
	var all []float64
	for _, x := range measure(b, s, topology.Expert).Arms[0].Samples {
		all = append(all, x.Rel2)
	}
	pools.Store(key, all)
	return all
}

// BenchmarkPower says how often a planted effect is found and named, and how
// often something else is, over tables of routed experts whose errors are drawn
// from measured matrices. docs/landscape.md has the tables of
//
//	go test ./analysis/landscape -run '^$' -bench Power -benchtime 200x
func BenchmarkPower(b *testing.B) {
	for _, size := range []int{64, 256} {
		for _, shape := range [][2]int{{5, 16}, {16, 32}, {46, 64}} {
			if size == 256 && shape[0] == 46 {
				continue // all of it is found with fewer tensors already
			}
			for _, plant := range []string{
				"layer=3:1.01", "layer=3:1.02", "layer=3:1.06", "expert=7:1.01", "expert=7:1.02", "expert=7:1.03",
				"projection=down:1.01", "projection=down:1.02", "tail=0.01:1.1", "tail=0.01:1.2", "tail=0.01:1.5",
			} {
				b.Run(fmt.Sprintf("%dx%d/%dx%d/%s", size, size, shape[0], shape[1], plant), func(b *testing.B) {
					power(b, size, shape[0], shape[1], plants(b, plant)[0])
				})
			}
		}
	}
}

func power(b *testing.B, size, layers, experts int, p demo.Plant) {
	flat, planted := draw(b, size, 1), draw(b, size, p.Factor)
	var found, other, listed, runs float64
	seed := uint64(0)
	b.ResetTimer()
	for b.Loop() {
		seed++
		table, tail := drawn(seed, size, layers, experts, p, flat, planted)
		g := newGroup(table, 0, topology.Expert, allItems(table))
		g.summary()
		g.outliers(context.Background())
		runs++
		hit := false
		for _, e := range g.effects() {
			if e.Kind == string(p.Kind) && (e.Kind == "tail" || e.Name == targetName(p)) {
				hit = true
			} else {
				other++
			}
		}
		if hit {
			found++
		}
		if len(tail) > 0 {
			both := 0
			for _, i := range g.report.Tail.Items {
				if tail[i] {
					both++
				}
			}
			listed += float64(both) / float64(len(tail))
		}
	}
	b.ReportMetric(100*found/runs, "found%")
	b.ReportMetric(100*other/runs, "other%")
	if p.Kind == demo.PlantTail {
		b.ReportMetric(100*listed/runs, "listed%")
	}
}

// BenchmarkFalseAlarms says in how many flat checkpoints something is found in
// any role; each one is made and measured.
//
//	go test ./analysis/landscape -run '^$' -bench FalseAlarms -benchtime 1000x
func BenchmarkFalseAlarms(b *testing.B) {
	for _, s := range []demo.Synth{
		{Layers: 1, Experts: 16, Hidden: 64, Intermediate: 32}, {Layers: 5, Experts: 8, Hidden: 32, Intermediate: 32},
		{Layers: 5, Experts: 16, Hidden: 64, Intermediate: 64}, {Layers: 20, Experts: 4, Hidden: 48, Intermediate: 16},
	} {
		b.Run(fmt.Sprintf("%dx%d/%dx%d", s.Intermediate, s.Hidden, s.Layers, s.Experts), func(b *testing.B) {
			alarms, runs := 0.0, 0.0
			for b.Loop() {
				runs++
				s.Seed = uint64(runs) + 1000
				table := measure(b, s)
				found := false
				for _, g := range analyzed(b, table).Groups {
					found = found || g.Verdict.Kind == Structured
				}
				if found {
					alarms++
				}
			}
			b.ReportMetric(100*alarms/runs, "alarms%")
		})
	}
}

// BenchmarkAnalyze is of a large model: 43 layers of 288 experts.
func BenchmarkAnalyze(b *testing.B) {
	for _, plant := range []string{"", "layer=5:1.06,expert=7:1.03,projection=down:1.02,tail=0.01:1.5"} {
		name := "flat"
		s := demo.Synth{Layers: 43, Experts: 288, Hidden: 16, Intermediate: 16, Seed: 1}
		if plant != "" {
			name, s.Plants = "planted", plants(b, plant)
		}
		b.Run(name, func(b *testing.B) {
			table := measure(b, s, topology.Expert)
			b.ResetTimer()
			for b.Loop() {
				analyzed(b, table)
			}
		})
	}
}

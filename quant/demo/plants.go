package demo

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"quantscope/quant/topology"
)

// PlantKind says what is planted.
type PlantKind string

// Kinds of plants.
const (
	PlantLayer      PlantKind = "layer"      // all matrices of a layer but its router
	PlantExpert     PlantKind = "expert"     // a routed expert in all layers
	PlantProjection PlantKind = "projection" // gate, up, down, q, k, v or o, in all layers and experts
	PlantTail       PlantKind = "tail"       // some of the routed experts' matrices, chosen by the seed
)

var (
	plantKinds       = []PlantKind{PlantLayer, PlantExpert, PlantProjection, PlantTail}
	plantProjections = []string{"gate", "up", "down", "q", "k", "v", "o"}
)

// Plant is an effect to be found: Factor multiplies rel2 of the matrices that
// it is about, under nvfp4 round to nearest. Factors multiply where plants meet.
type Plant struct {
	Kind       PlantKind
	Index      int     // of the layer, which is the number in its name, or of the expert
	Projection string  // of PlantProjection
	Fraction   float64 // of PlantTail: of the routed experts' matrices, at least one of them
	Factor     float64
}

// String is the plant as ParsePlants reads it.
func (p Plant) String() string { return p.target() + ":" + strconv.FormatFloat(p.Factor, 'g', -1, 64) }

// target is what the plant is about: layer=5.
func (p Plant) target() string {
	value := strconv.Itoa(p.Index)
	switch p.Kind {
	case PlantProjection:
		value = p.Projection
	case PlantTail:
		value = strconv.FormatFloat(p.Fraction, 'g', -1, 64)
	}
	return string(p.Kind) + "=" + value
}

// ParsePlants reads a list such as layer=5:1.06,expert=17:1.03,tail=0.01:1.5.
func ParsePlants(text string) ([]Plant, error) {
	var plants []Plant
	for _, one := range strings.Split(text, ",") {
		p, err := parsePlant(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		plants = append(plants, p)
	}
	return plants, nil
}

func parsePlant(text string) (p Plant, err error) {
	head, factor, ok1 := strings.Cut(text, ":")
	kind, value, ok2 := strings.Cut(head, "=")
	if !ok1 || !ok2 {
		return p, fmt.Errorf("plant %q: want KIND=WHICH:FACTOR, as in layer=5:1.06", text)
	}
	p.Kind = PlantKind(kind)
	if p.Factor, err = strconv.ParseFloat(factor, 64); err != nil {
		return p, fmt.Errorf("plant %q: factor %q is no number", text, factor)
	}
	switch p.Kind {
	case PlantLayer, PlantExpert:
		p.Index, err = strconv.Atoi(value)
	case PlantProjection:
		p.Projection = value
	case PlantTail:
		p.Fraction, err = strconv.ParseFloat(value, 64)
	default:
		return p, fmt.Errorf("plant %q: unknown kind %q (known: %s)", text, kind, join(plantKinds))
	}
	if err != nil {
		return p, fmt.Errorf("plant %q: %s %q is no number", text, kind, value)
	}
	return p, nil
}

func join[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// checkPlants refuses plants that the model has no place for. Factors are
// checked where they meet.
func (s Synth) checkPlants() error {
	seen := map[string]bool{}
	for _, p := range s.Plants {
		key := p.target()
		if p.Kind == PlantTail {
			key = string(p.Kind)
		}
		if seen[key] {
			return fmt.Errorf("synth: plant %v: %s is planted twice", p, key)
		}
		seen[key] = true
		if !(p.Factor > 0) || math.IsInf(p.Factor, 1) {
			return fmt.Errorf("synth: plant %v: factor is %v, want %s", p, p.Factor, reach())
		}
		switch p.Kind {
		case PlantLayer:
			if last := s.Layers + s.dense() - 1; p.Index < 0 || p.Index > last {
				return fmt.Errorf("synth: plant %v: there is no layer %d (layers 0 to %d)", p, p.Index, last)
			}
		case PlantExpert:
			if p.Index < 0 || p.Index >= s.Experts {
				return fmt.Errorf("synth: plant %v: there is no expert %d (experts 0 to %d)", p, p.Index, s.Experts-1)
			}
		case PlantProjection:
			if !slices.Contains(plantProjections, p.Projection) {
				return fmt.Errorf("synth: plant %v: unknown projection %q (known: %s)", p, p.Projection, join(plantProjections))
			}
		case PlantTail:
			if !(p.Fraction > 0 && p.Fraction <= 1) {
				return fmt.Errorf("synth: plant %v: fraction is %v, want above 0 and up to 1", p, p.Fraction)
			}
		default:
			return fmt.Errorf("synth: plant %v: unknown kind %q (known: %s)", p, p.Kind, join(plantKinds))
		}
	}
	return nil
}

// reach is what a factor can be: with it all blocks are drawn from one law.
func reach() string { return fmt.Sprintf("%v to %v", easyRatio, hardRatio) }

// plant gives the tensors their factors.
func (s Synth) plant(all []synthTensor) error {
	if err := s.checkPlants(); err != nil || len(s.Plants) == 0 {
		return err
	}
	factors := make([]float64, len(all))
	for i := range factors {
		factors[i] = 1
	}
	for _, p := range s.Plants {
		if p.Kind == PlantTail {
			for _, i := range tailOf(all, s.Seed, p.Fraction) {
				factors[i] *= p.Factor
			}
			continue
		}
		for i := range all {
			if p.on(&all[i].role) {
				factors[i] *= p.Factor
			}
		}
	}
	for i, f := range factors {
		if f < easyRatio || f > hardRatio {
			return fmt.Errorf("synth: tensor %q: planted factors multiply to %.4g, want %s", all[i].Name, f, reach())
		}
		if f != 1 {
			all[i].planted = newPlanted(s.Seed, all[i].Name, int(all[i].Shape[1]), f)
		}
	}
	return nil
}

// on says whether the plant is about a matrix.
func (p Plant) on(r *topology.Role) bool {
	switch r.Kind {
	case topology.Expert, topology.SharedExpert, topology.MLP, topology.Attention:
	default:
		return false
	}
	switch p.Kind {
	case PlantLayer:
		return r.Layer == p.Index
	case PlantExpert:
		return r.Kind == topology.Expert && r.Expert == p.Index
	case PlantProjection:
		return r.Projection == p.Projection
	}
	return false
}

// tailOf chooses a fraction of the routed experts' matrices, in their order.
func tailOf(all []synthTensor, seed uint64, fraction float64) []int {
	type drawn struct {
		index int
		lot   stream
	}
	var lots []drawn
	for i := range all {
		if all[i].role.Kind == topology.Expert {
			lots = append(lots, drawn{i, newStream(seed, "tail "+all[i].Name)})
		}
	}
	slices.SortFunc(lots, func(a, b drawn) int {
		return cmp.Or(cmp.Compare(a.lot, b.lot), cmp.Compare(a.index, b.index))
	})
	n := max(1, int(math.Round(fraction*float64(len(lots)))))
	chosen := make([]int, n)
	for i := range chosen {
		chosen[i] = lots[i].index
	}
	slices.Sort(chosen)
	return chosen
}

// Tail names the tensors of the planted tail, in the order of the model; none
// without one.
func (s Synth) Tail() ([]string, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	all, err := s.tensors()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range s.Plants {
		if p.Kind == PlantTail {
			for _, i := range tailOf(all, s.Seed, p.Fraction) {
				names = append(names, all[i].Name)
			}
		}
	}
	return names, nil
}

package sessions

import (
	"math"

	"quantscope/analysis/landscape"
	"quantscope/quant/method"
)

// SourceArm is the name of the arm of a Table that keeps the source's weights.
const SourceArm = "source"

// Table is the state as package landscape takes it: one item a tensor, one arm
// a variant in the order of the session, and last the arm SourceArm, which
// loses nothing. What a variant stores a tensor in is worked out from its
// name; -1 where this program does not know the variant.
func (s *State) Table() *landscape.Table {
	t := &landscape.Table{Items: make([]landscape.Item, len(s.Tensors)), Arms: make([]landscape.Arm, 0, len(s.Variants)+1)}
	for i := range s.Tensors {
		n := &s.Tensors[i]
		t.Items[i] = landscape.Item{
			ID: n.ID, Name: n.Name, Role: n.Role, Rows: n.Rows, Cols: n.Cols,
			SourceBytes: sourceBytes(n), Amax: math.NaN(), Std: math.NaN(), Kurtosis: math.NaN(),
		}
	}
	for v := range s.Variants {
		t.Arms = append(t.Arms, s.arm(v, t.Items))
	}
	source := landscape.Arm{Name: SourceArm, Bytes: make([]int64, len(t.Items)), Samples: make([]landscape.Sample, len(t.Items))}
	for i := range t.Items {
		source.Bytes[i] = t.Items[i].SourceBytes
		source.Samples[i] = landscape.Sample{State: landscape.Measured, Cos: 1}
	}
	source.BitsPerWeight = landscape.SourceBits(t.Items)
	t.Arms = append(t.Arms, source)
	return t
}

// arm is one variant. It fills in what the records know of the source.
func (s *State) arm(v int, items []landscape.Item) landscape.Arm {
	a := landscape.Arm{
		Name: s.Variants[v].Name, BitsPerWeight: s.Variants[v].BitsPerWeight,
		Bytes: make([]int64, len(items)), Samples: make([]landscape.Sample, len(items)),
	}
	r := s.RecipeOf(v)
	if r != nil {
		a.As = make([]string, len(items))
	}
	known := map[string]*method.Variant{}
	for _, name := range s.Kinds(v) {
		if k, err := method.Parse(name); err == nil {
			known[name] = &k
		}
	}
	only := known[s.Variants[v].Plain()] // of a variant that is one way
	for i := range items {
		k, kept := only, false
		if r != nil {
			how, quantized := s.How(v, i)
			a.As[i], k, kept = how.Name, known[how.Name], !quantized
		}
		switch {
		case kept: // as the source has it, of which there is no record
			a.Bytes[i] = items[i].SourceBytes
			a.Samples[i] = landscape.Sample{State: landscape.Measured, Cos: 1}
			continue
		case k != nil:
			a.Bytes[i] = k.Bytes(items[i].Rows, items[i].Cols)
		default:
			a.Bytes[i] = -1
		}
		r := &s.Records[v][i]
		switch {
		case r.Seq == 0:
		case r.Failed:
			a.Samples[i].State = landscape.Failed
		default:
			a.Samples[i] = landscape.Sample{
				State: landscape.Measured, Rel2: r.Rel2, RelL2: r.RelL2, Cos: r.Cos, W2: r.W2, E2: r.E2,
				Blocks: r.Blocks, ScaleHigh: r.ScaleHigh, ScaleLow: r.ScaleLow, Shallow: r.Shallow, Deep: r.Deep,
				ShallowL2: r.ShallowL2, DeepL2: r.DeepL2,
			}
			items[i].Amax = r.Amax
			if !math.IsNaN(r.Std) { // an older record does not know it, and another may
				items[i].Std, items[i].Kurtosis = r.Std, r.Kurtosis
			}
		}
	}
	return a
}

// sourceBytes is what a tensor takes in the source; -1 for a type that is not
// known.
func sourceBytes(t *Tensor) int64 {
	return tensorBytes(t)
}

// SourceBytes is what a tensor takes in the source; -1 for a type that is not known.
func SourceBytes(t *Tensor) int64 { return sourceBytes(t) }

package align

import (
	"context"
	"runtime"

	"quantscope/quant/topology"
)

// Smoothed is what smoothing did to one tensor of a candidate.
type Smoothed struct {
	Cols  []float64 // what the columns of a matrix were multiplied by; nil for none
	Rows  []float64 // what its rows were divided by; nil for none
	Words []string
	Loose bool // scales are known as rounded matrices tell them, to a few per cent, not as a norm does
}

// Smoothing finds what smoothing did to a candidate's tensors, by the names that it
// has for them, a module's without its parameter. Norms and biases that were divided
// are among them. Layers whose norms are the master's are not looked into.
func Smoothing(ctx context.Context, master, candidate *Side, o Options) (map[string]Smoothed, []Finding, error) {
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	x := &comparison{Options: o, master: master, candidate: candidate, config: master.Config, report: newReport(master, candidate), ordered: true}
	if err := x.pair(); err != nil {
		return nil, nil, err
	}
	out, w := map[string]Smoothed{}, &worker{}
	var found []Finding
	for _, l := range x.layers {
		moved, err := l.normMoved(ctx, w)
		if err != nil {
			return nil, nil, err
		}
		if !moved {
			continue
		}
		if err := x.layer(ctx, l); err != nil {
			return nil, nil, err
		}
		for _, p := range l.pairs {
			if len(p.undo.words) > 0 {
				out[p.b.Name] = Smoothed{p.undo.cols, p.undo.rows, p.undo.words, p.undo.loose}
			}
			p.sums, p.values = nil, [2][]float64{}
		}
		found = append(found, l.found...)
	}
	return out, found, nil
}

// normMoved says whether a norm of the layer that has matrices behind it is not the
// master's.
func (l *layer) normMoved(ctx context.Context, w *worker) (bool, error) {
	for _, p := range l.pairs {
		if p.a.Role.Kind != topology.Norm || p.a.Role.Param != "weight" || p.a.Rows != 1 || len(l.behind(p)) == 0 {
			continue
		}
		a, err := read(ctx, &w.a, p.a)
		if err != nil {
			return false, err
		}
		b, err := read(ctx, &w.b, p.b)
		if err != nil {
			return false, err
		}
		if moved(&pair{values: [2][]float64{a, b}}) {
			return true, nil
		}
	}
	return false, nil
}

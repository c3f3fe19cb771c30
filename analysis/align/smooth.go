package align

import (
	"context"
	"fmt"
	"math"
	"slices"

	"quantscope/quant/topology"
)

// Smoothing (AWQ, SmoothQuant) multiplies the inputs of matrices by a vector s,
// column by column, and divides by it what comes before them: the weight of a norm,
// or the rows of a linear map. The model stays what it was.

// Thresholds of the evidence.
const (
	leastExplained = 0.5       // share of what the columns' scales differ from 1 by that s must explain
	aboveNoise     = 4         // times what rounding alone would make of that
	worthExplained = 0.001     // relative error below which nothing is looked for
	normMoved      = 1.0 / 256 // relative difference of a norm's weight beyond the rounding of bf16
)

// attentionNorms and feedForwardNorms are the norms before a block, the first that a
// layer has counting.
var (
	attentionNorms   = []string{"input_layernorm", "attn_norm", "attention_norm", "ln_1", "norm_1", "ln_attn", "operator_norm"}
	feedForwardNorms = []string{"pre_feedforward_layernorm", "pre_mlp_layernorm", "post_attention_layernorm", "ffn_norm", "ln_2", "norm_2", "ln_mlp"}
	latentNorms      = map[string]string{"q_a_layernorm": "q_b", "q_a_norm": "q_b", "kv_a_layernorm": "kv_b", "kv_a_norm": "kv_b"}
	hiddenInputs     = []string{"q", "k", "v", "qkv", "q_a", "kv_a", "qkv_a", "kv", "qkvz", "ba", "z", "a", "b", "g"}
)

// behind lists the matrices of a layer whose inputs come from a norm.
func (l *layer) behind(norm *pair) []*pair {
	var out []*pair
	name := norm.a.Role.Projection
	first := func(names []string) bool {
		for _, n := range names {
			if l.hasNorm(n) {
				return n == name
			}
		}
		return false
	}
	attention, feedForward := first(attentionNorms), first(feedForwardNorms)
	for _, p := range l.pairs {
		r := p.a.Role
		if !p.a.Matrix || p.a.Cols != norm.a.Cols {
			continue
		}
		switch r.Kind {
		case topology.Attention:
			if attention && slices.Contains(hiddenInputs, r.Projection) || latentNorms[name] == r.Projection && r.Projection != "" {
				out = append(out, p)
			}
		case topology.MLP, topology.Expert, topology.SharedExpert:
			if feedForward && (r.Projection == "gate" || r.Projection == "up" || r.Projection == "gate_up") {
				out = append(out, p)
			}
		case topology.Router:
			if feedForward {
				out = append(out, p)
			}
		case topology.Head:
			if r.Layer < 0 && norm.a.Role.Layer < 0 {
				out = append(out, p)
			}
		}
	}
	return out
}

func (l *layer) hasNorm(name string) bool {
	return slices.ContainsFunc(l.pairs, func(p *pair) bool {
		return p.a.Role.Kind == topology.Norm && p.a.Role.Projection == name && p.a.Role.Param == "weight"
	})
}

// evidence is how a vector s explains the columns of a matrix.
type evidence struct {
	off   float64 // Σ‖w‖²(ŝ−1)², ŝ the least-squares scale of each column
	left  float64 // Σ‖w‖²(ŝ−s)²
	noise float64 // what rounding alone makes of off
	w2    float64 // Σ‖w‖²
}

// explained is the share of off that s explains.
func (e *evidence) explained() float64 { return 1 - e.left/e.off }

// holds says whether s explains the columns: most of what they are off by, where
// that is more than noise.
func (e *evidence) holds() bool {
	return e.off > aboveNoise*e.noise && e.off > 0 && e.explained() >= leastExplained
}

// significant says whether columns are scaled at all.
func (e *evidence) significant() bool {
	return e.off > aboveNoise*e.noise && e.off > worthExplained*worthExplained*e.w2
}

// weigh holds s against the columns of a matrix, whose rows are so many. s is nil for
// ones.
func weigh(c *lines, rows int, s []float64) (e evidence) {
	for j, w2 := range c.w2 {
		if w2 == 0 {
			continue
		}
		scale := c.wq[j] / w2
		at := 1.0
		if s != nil {
			at = s[j]
		}
		e.off += w2 * (scale - 1) * (scale - 1)
		e.left += w2 * (scale - at) * (scale - at)
		e.noise += max(0, c.q2[j]-c.wq[j]*scale) / float64(rows)
		e.w2 += w2
	}
	return e
}

// byNorms finds the scales that norms were divided by and undoes them in what stands
// behind.
func (l *layer) byNorms() {
	for _, norm := range l.pairs {
		if norm.a.Role.Kind != topology.Norm || norm.a.Role.Param != "weight" || norm.values[0] == nil || !moved(norm) {
			continue
		}
		behind := l.behind(norm)
		if len(behind) == 0 {
			continue
		}
		var best []*pair
		var scales []float64
		how := ""
		for _, plus := range []float64{0, 1} {
			s := ratio(norm.values, plus)
			var good []*pair
			for _, p := range behind {
				if p.sums == nil {
					continue
				}
				s := l.filled(s, behind)
				if e := weigh(&p.sums.col, p.a.Rows, s); e.holds() {
					good = append(good, p)
				}
			}
			if len(good) > len(best) {
				best, scales, how = good, l.filled(s, behind), norm.a.Role.Projection
				if plus == 1 {
					how += " (as 1+w)"
				}
			}
		}
		if len(best) == 0 {
			continue
		}
		words := fmt.Sprintf("smoothing undone: s in %s, from %s", span(scales), how)
		for _, p := range behind {
			if slices.Contains(best, p) {
				p.undo.cols = scales
				p.undo.words = append(p.undo.words, words)
			} else {
				l.pending = append(l.pending, pending{p, norm, scales, words})
			}
		}
		l.undoneNorm(norm, scales, behind)
	}
}

// pending is a matrix that a scale should explain and does not: perhaps its rows
// stand in another order.
type pending struct {
	p      *pair
	norm   *pair
	scales []float64
	words  string
}

// undoneNorm takes the scale out of a norm: its weights are then the master's.
func (l *layer) undoneNorm(norm *pair, s []float64, behind []*pair) {
	norm.final = norm.stored
	norm.final.e2, norm.final.most, norm.final.different = 0, 0, 0
	norm.undo.words = append(norm.undo.words, fmt.Sprintf("was divided by s in %s, which %d matrices behind it were multiplied by", span(s), len(behind)))
	for _, p := range l.pairs { // a bias of the norm is divided as well
		r := norm.a.Role
		r.Param = "bias"
		if p.a.Role == r && len(p.values[0]) == len(s) {
			p.undo.cols, p.undo.words = inverse(s), []string{"multiplied by s of the weight"}
		}
	}
}

func inverse(s []float64) []float64 {
	out := make([]float64, len(s))
	for i, v := range s {
		out[i] = 1 / v
	}
	return out
}

// moved says whether the weights of a norm differ by more than rounding to bf16.
func moved(p *pair) bool {
	for i, m := range p.values[0] {
		if d := math.Abs(m - p.values[1][i]); d > normMoved*math.Abs(m) && d > 1e-8 {
			return true
		}
	}
	return false
}

// ratio is what the candidate's norm was divided by; NaN where nothing tells.
func ratio(values [2][]float64, plus float64) []float64 {
	s := make([]float64, len(values[0]))
	for i, m := range values[0] {
		s[i] = (plus + m) / (plus + values[1][i])
		if !(s[i] > 0) || math.IsInf(s[i], 0) {
			s[i] = math.NaN()
		}
	}
	return s
}

// filled is s with the least-squares scale of all columns behind a norm where the
// norm does not tell, as at weights of 0.
func (l *layer) filled(s []float64, behind []*pair) []float64 {
	s = slices.Clone(s)
	for j := range s {
		if s[j] == s[j] {
			continue
		}
		var w2, wq float64
		for _, p := range behind {
			if p.sums != nil {
				w2, wq = w2+p.sums.col.w2[j], wq+p.sums.col.wq[j]
			}
		}
		if s[j] = wq / w2; !(s[j] > 0) || math.IsInf(s[j], 0) {
			s[j] = 1
		}
	}
	return s
}

// span writes the least and the largest of s.
func span(s []float64) string { return fmt.Sprintf("[%.3g, %.3g]", slices.Min(s), slices.Max(s)) }

// byMaps finds scales between linear maps: rows of v or up divided by what the
// columns of o or down were multiplied by.
func (l *layer) byMaps(ctx context.Context, w *worker) error {
	for _, to := range l.pairs {
		r := to.a.Role
		var from string
		switch {
		case r.Kind == topology.Attention && r.Projection == "o":
			from = "v"
		case (r.Kind == topology.MLP || r.Kind == topology.Expert || r.Kind == topology.SharedExpert) && r.Projection == "down":
			from = "up"
		default:
			continue
		}
		if to.sums == nil || to.undo.cols != nil {
			continue
		}
		if e := weigh(&to.sums.col, to.a.Rows, nil); !e.significant() {
			continue
		}
		r.Projection = from
		at := slices.IndexFunc(l.pairs, func(p *pair) bool { return p.a.Role == r && p.a.Matrix })
		if at < 0 || l.pairs[at].sums == nil {
			l.find(ScaledColumns, to, "its columns are scaled, and no %s stands before it that could have been divided by that", from)
			continue
		}
		before := l.pairs[at]
		if err := l.between(ctx, w, before, to); err != nil {
			return err
		}
	}
	return nil
}

// between looks for a scale between two linear maps. Where heads share a v, each of
// its rows feeds several columns.
func (l *layer) between(ctx context.Context, w *worker, v, o *pair) error {
	feeds := func(col int) int { return col }
	if v.a.Rows != o.a.Cols {
		c := l.config
		if v.a.Role.Projection != "v" || c.KVHeads == 0 || c.Heads%c.KVHeads != 0 || v.a.Rows%c.KVHeads != 0 || o.a.Cols != v.a.Rows/c.KVHeads*c.Heads {
			l.find(ScaledColumns, o, "its columns are scaled, and the rows of %s are not as many", v.b.Name)
			return nil
		}
		width, share := v.a.Rows/c.KVHeads, c.Heads/c.KVHeads
		feeds = func(col int) int { return col/width/share*width + col%width }
	}
	own := v.sums
	if v.undo.any() { // rows are seen once columns are put right
		own = &sums{newLines(v.a.Cols), newLines(v.a.Rows)}
		if _, err := w.pass(ctx, v, &v.undo, own); err != nil {
			return err
		}
	}
	rows := make([]float64, v.a.Rows) // s by the rows of v alone
	for r := range rows {
		rows[r] = own.row.w2[r] / own.row.wq[r]
		if !(rows[r] > 0) || math.IsInf(rows[r], 0) {
			rows[r] = 1
		}
	}
	s := make([]float64, o.a.Cols)
	for j := range s {
		s[j] = rows[feeds(j)]
	}
	e := weigh(&o.sums.col, o.a.Rows, s)
	if !e.holds() {
		l.find(ScaledColumns, o, "its columns are scaled, of which the rows of %s explain %.0f %%: not undone", v.b.Name, 100*max(0, e.explained()))
		return nil
	}
	joined := l.joined(own, o, rows, feeds)
	for j := range s {
		s[j] = joined[feeds(j)]
	}
	o.undo.cols, o.undo.loose, v.undo.loose = s, true, true
	o.undo.words = append(o.undo.words, fmt.Sprintf("smoothing undone: s in %s, from the rows of %s", span(s), v.a.Role.Projection))
	v.undo.rows = joined
	v.undo.words = append(v.undo.words, fmt.Sprintf("rows were divided by s in %s, which the columns of %s were multiplied by", span(joined), o.a.Role.Projection))
	for _, p := range l.pairs { // a bias is divided with its rows
		r := v.a.Role
		r.Param = "bias"
		if p.a.Role == r && len(p.values[0]) == len(joined) {
			p.undo.cols, p.undo.words = inverse(joined), []string{"multiplied by s of the weight's rows"}
		}
	}
	return nil
}

// joined is s of each row by both matrices, each weighed by how well it tells.
func (l *layer) joined(own *sums, o *pair, rows []float64, feeds func(int) int) []float64 {
	num, den := make([]float64, len(rows)), make([]float64, len(rows))
	for r, s := range rows {
		ratio := own.row.wq[r] / own.row.w2[r]
		residual := max(0, own.row.q2[r]-own.row.wq[r]*ratio)/float64(len(own.col.w2)) + 1e-30*own.row.w2[r]
		if weight := own.row.w2[r] * ratio * ratio / residual; weight > 0 && !math.IsInf(weight, 0) {
			num[r], den[r] = weight*math.Log(s), weight
		}
	}
	for j, w2 := range o.sums.col.w2 {
		scale := o.sums.col.wq[j] / w2
		residual := max(0, o.sums.col.q2[j]-o.sums.col.wq[j]*scale)/float64(o.a.Rows) + 1e-30*w2
		if weight := w2 * scale * scale / residual; scale > 0 && weight > 0 && !math.IsInf(weight, 0) {
			num[feeds(j)] += weight * math.Log(scale)
			den[feeds(j)] += weight
		}
	}
	out := make([]float64, len(rows))
	for r := range out {
		if out[r] = math.Exp(num[r] / den[r]); !(out[r] > 0) || math.IsInf(out[r], 0) {
			out[r] = 1
		}
	}
	return out
}

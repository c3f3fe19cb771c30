package yardstick

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/stats"
	"quantscope/quant/tokenizer"
)

// sums are those of a set of positions.
type sums struct {
	n, finite int64 // positions with figures, those of them with a finite KL
	kl        float64
	reverse   float64
	top       float64
	nll, ref  float64
	delta     float64
	dp2       float64
}

// sumsOf are those of one position, refP being the reference's probability of the
// next token.
func sumsOf(r *Row, p *RefRow, refP float64) sums {
	s := sums{n: 1, reverse: r.Reverse, nll: r.NLL, ref: p.NLL}
	if !math.IsInf(r.KL, 1) {
		s.finite, s.kl = 1, r.KL
	}
	if r.Top == p.Top {
		s.top = 1
	}
	if r.NLL != p.NLL { // both may be infinite
		s.delta = r.NLL - p.NLL
	}
	d := math.Exp(-r.NLL) - refP
	s.dp2 = d * d
	return s
}

func (s *sums) join(o *sums) {
	s.n += o.n
	s.finite += o.finite
	s.kl += o.kl
	s.reverse += o.reverse
	s.top += o.top
	s.nll += o.nll
	s.ref += o.ref
	s.delta += o.delta
	s.dp2 += o.dp2
}

// set is a set of positions: its sums by chunk, its divergences and what has none.
type set struct {
	name          string
	by            []sums // by chunk
	keys          []uint64
	nan, infinite int64
}

// work is memory that one goroutine uses for candidate after candidate.
type work struct {
	all     set
	bucket  []set
	class   []set
	place   []set
	scratch []uint64
}

func newWork(t *table) *work {
	w := &work{
		bucket: make([]set, len(buckets)), class: make([]set, len(tokenizer.Classes)+1), place: make([]set, t.places),
		scratch: make([]uint64, t.positions),
	}
	for i := range w.bucket {
		w.bucket[i].name = bucketNames[i]
	}
	for i := range w.class {
		w.class[i].name = "not known"
		if i < len(tokenizer.Classes) {
			w.class[i].name = tokenizer.Classes[i].String()
		}
	}
	for i := range w.place {
		w.place[i].name = fmt.Sprintf("%d – %d", i*t.width, (i+1)*t.width-1)
		if t.width == 1 {
			w.place[i].name = fmt.Sprint(i)
		}
	}
	w.all = set{name: "all", keys: make([]uint64, 0, t.positions)}
	return w
}

func (s *set) reset(chunks int) {
	if len(s.by) != chunks {
		s.by = make([]sums, chunks)
	}
	clear(s.by)
	s.keys, s.nan, s.infinite = s.keys[:0], 0, 0
}

// add takes in a position with its key, or one without figures.
func (s *set) add(chunk int, x *sums, key uint64) {
	if x.n == 0 {
		s.nan++
		return
	}
	if x.finite == 0 {
		s.infinite++
	}
	s.keys = append(s.keys, key)
	s.by[chunk].join(x)
}

// nan says that a position has no figures.
func (r *Row) nan() bool { return r.KL != r.KL || r.Reverse != r.Reverse || r.NLL != r.NLL }

// result makes the summaries of one candidate.
func (t *table) result(w *work, candidate int) Result {
	out := Result{Candidate: candidate}
	n := len(t.chunks)
	w.all.reset(n)
	for _, sets := range [][]set{w.bucket, w.class, w.place} {
		for i := range sets {
			sets[i].reset(n)
		}
	}
	corpora := make([]set, len(t.s.Corpora))
	for i := range corpora {
		corpora[i].name = t.s.Corpora[i].Name
		corpora[i].by = w.all.by // a chunk is of one corpus
	}
	for k, c := range t.chunks {
		rows := c.Rows[candidate]
		from, nan, infinite := len(w.all.keys), w.all.nan, w.all.infinite
		for i := range rows {
			at := t.first[k] + i
			r := &rows[i]
			var x sums
			if !r.nan() {
				x = sumsOf(r, &c.Ref[i], t.refP[at])
				out.Histogram.add(r.KL)
			}
			key := math.Float64bits(max(r.KL, 0))
			w.all.add(k, &x, key)
			w.bucket[t.bucket[at]].add(k, &x, key)
			w.class[t.class[at]].add(k, &x, key)
			w.place[t.place[at]].add(k, &x, key)
		}
		corpus := &corpora[c.Corpus]
		corpus.nan += w.all.nan - nan
		corpus.infinite += w.all.infinite - infinite
		corpus.keys = w.all.keys[from-len(corpus.keys):] // chunks of a corpus follow one another
	}
	out.Corpora = make([]Summary, len(corpora))
	for i := range corpora {
		out.Corpora[i] = t.summary(&corpora[i], w.scratch, i)
		if why := t.s.Corpora[i].Incomparable; why != "" {
			out.Corpora[i].because("perplexity is not comparable: " + why)
		}
	}
	for i := range w.bucket {
		out.Buckets = append(out.Buckets, t.summary(&w.bucket[i], w.scratch, -1))
	}
	for i := range w.class {
		if i < len(tokenizer.Classes) || len(w.class[i].keys) > 0 {
			out.Classes = append(out.Classes, t.summary(&w.class[i], w.scratch, -1))
		}
	}
	for i := range w.place {
		out.ByPlace = append(out.ByPlace, t.summary(&w.place[i], w.scratch, -1))
	}
	out.All = t.summary(&w.all, w.scratch, -1)
	out.Worst = t.worst(candidate, w.all.keys) // sorted by now
	return out
}

func (h *Histogram) add(kl float64) {
	if math.IsInf(kl, 1) {
		h.Infinite++
		return
	}
	bin := 0
	if kl > 0 {
		bin = int(min(max(math.Floor((math.Log10(kl)-HistogramFrom)/HistogramStep), 0), float64(len(h.Counts)-1)))
	}
	h.Counts[bin]++
}

// because adds a reason.
func (s *Summary) because(why string) {
	if s.Why != "" {
		why = s.Why + "; " + why
	}
	s.Why = why
}

// summary makes the figures of a set; corpus is its corpus, −1 where it may be of
// all.
func (t *table) summary(x *set, scratch []uint64, corpus int) Summary {
	nan := math.NaN()
	s := Summary{
		Name: x.name, Positions: int64(len(x.keys)), NaN: x.nan, Infinite: x.infinite,
		KL: nan, KLErr: nan, Median: nan, P90: nan, P99: nan, P999: nan, Max: nan, Reverse: nan, RevErr: nan, Top1: nan, Top1Err: nan,
		NLL: nan, RefNLL: nan, DNLL: nan, DNLLErr: nan, PPL: nan, RefPPL: nan, PPLErr: nan, RMSdP: nan,
	}
	if x.nan > 0 {
		s.because(fmt.Sprintf("%d positions are not a number and in no figure", x.nan))
	}
	if x.infinite > 0 {
		s.because(fmt.Sprintf("%d positions have an infinite KL and are not in its mean", x.infinite))
	}
	var sum sums
	for k := range x.by {
		if corpus < 0 || t.chunks[k].Corpus == corpus {
			if x.by[k].n > 0 {
				s.Chunks++
			}
			sum.join(&x.by[k])
		}
	}
	if len(x.keys) == 0 {
		s.because("no position with a figure")
		return s
	}
	stats.SortKeys(x.keys, scratch)
	s.Median, s.P90, s.P99 = quantile(x.keys, 0.5), quantile(x.keys, 0.9), quantile(x.keys, 0.99)
	s.P999, s.Max = quantile(x.keys, 0.999), quantile(x.keys, 1)
	n := float64(sum.n)
	s.KL = sum.kl / float64(sum.finite)
	s.Reverse, s.Top1 = sum.reverse/n, sum.top/n
	s.NLL, s.RefNLL, s.DNLL = sum.nll/n, sum.ref/n, sum.delta/n
	s.PPL, s.RefPPL, s.RMSdP = math.Exp(s.NLL), math.Exp(s.RefNLL), math.Sqrt(sum.dp2/n)
	if s.Chunks < 2 {
		s.because("one chunk has no standard error")
		return s
	}
	s.KLErr = t.standardError(x, corpus, s.KL, func(c *sums) (float64, int64) { return c.kl, c.finite })
	s.RevErr = t.standardError(x, corpus, s.Reverse, func(c *sums) (float64, int64) { return c.reverse, c.n })
	s.Top1Err = t.standardError(x, corpus, s.Top1, func(c *sums) (float64, int64) { return c.top, c.n })
	s.DNLLErr = t.standardError(x, corpus, s.DNLL, func(c *sums) (float64, int64) { return c.delta, c.n })
	s.PPLErr = s.PPL * t.standardError(x, corpus, s.NLL, func(c *sums) (float64, int64) { return c.nll, c.n })
	return s
}

// standardError is that of a mean over chunks, see Analyze.
func (t *table) standardError(x *set, corpus int, mean float64, of func(*sums) (float64, int64)) float64 {
	var variance float64
	var total int64
	for _, stratum := range t.strata {
		var n, sum, sum2 float64
		for _, k := range stratum {
			if corpus >= 0 && t.chunks[k].Corpus != corpus {
				continue
			}
			d, count := of(&x.by[k])
			r := d - mean*float64(count)
			n++
			sum += r
			sum2 += r * r
			total += count
		}
		if n > 1 {
			variance += n / (n - 1) * max(sum2-sum*sum/n, 0)
		}
	}
	if total == 0 {
		return math.NaN()
	}
	return math.Sqrt(variance) / float64(total)
}

// quantile is stats.Quantile of the bits of numbers that are not negative, in
// ascending order; between a finite one and infinity it is infinite.
func quantile(keys []uint64, q float64) float64 {
	n := len(keys)
	if n == 0 {
		return math.NaN()
	}
	at := q * float64(n-1)
	i := min(int(at), n-1)
	lo := math.Float64frombits(keys[i])
	f := at - float64(i)
	if i == n-1 || f == 0 || keys[i] == keys[i+1] {
		return lo
	}
	hi := math.Float64frombits(keys[i+1])
	if math.IsInf(hi, 1) {
		return hi
	}
	if f < 0.5 {
		return lo + (hi-lo)*f
	}
	return hi - (hi-lo)*(1-f)
}

// worst are the positions of the largest divergences, the largest first, of equal
// ones the one that stands first. sorted are all divergences.
func (t *table) worst(candidate int, sorted []uint64) []Place {
	if len(sorted) == 0 {
		return nil
	}
	least := sorted[max(len(sorted)-maxWorst, 0)]
	if least == 0 {
		least = 1 // no divergence is no bad position
	}
	var above, equal []Place
	for k, c := range t.chunks {
		for i := range c.Rows[candidate] {
			r := &c.Rows[candidate][i]
			key := math.Float64bits(max(r.KL, 0))
			if r.nan() || key < least {
				continue
			}
			p := Place{Corpus: c.Corpus, Chunk: c.Index, At: c.First + i, KL: r.KL, Target: -1, Ref: c.Ref[i].Top, Cand: r.Top, MaxP: float64(c.Ref[i].MaxP)}
			if ids := t.s.Corpora[c.Corpus].IDs; ids != nil {
				p.Target = ids[t.chunks[k].Index][p.At+1]
			}
			switch {
			case key > least:
				above = append(above, p)
			case len(equal) < maxWorst:
				equal = append(equal, p)
			}
		}
	}
	sortPlaces(above)
	return append(above, equal[:min(len(equal), maxWorst-len(above))]...)
}

func sortPlaces(p []Place) {
	slices.SortStableFunc(p, func(a, b Place) int { return cmp.Compare(b.KL, a.KL) })
}

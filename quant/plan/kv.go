package plan

import (
	"fmt"
	"math"
	"math/bits"

	"quantscope/quant/topology"
)

// kvBytes is what one element of keys and values takes. Scales of fp8 are one a
// layer and not counted.
var kvBytes = map[string]int64{"bf16": 2, "f16": 2, "fp8": 1}

// cached is what a rank keeps of a text.
type cached struct {
	kv    int64 // bytes of Options.KVTokens tokens
	state int64 // bytes of one sequence, whatever its length
	notes []string
}

// keysAndValues is what a rank keeps of Options.KVTokens tokens, and what is to be
// known of that number.
func (p *planner) keysAndValues(class *loaderClass) (cached, error) {
	notes := newNotes()
	var out cached
	if p.o.KVTokens == 0 || !class.body && !class.mtp {
		return out, nil
	}
	total := uint64(0)
	shared, latent := 0, false
	for _, l := range p.model.Caches() {
		switch {
		case l.MTP && !class.mtp, !l.MTP && !class.body:
			continue
		case l.Shared:
			shared++
			continue
		}
		out.state += p.rankState(&l, notes)
		latent = latent || l.Latent
		for _, part := range p.keeps(&l, notes) {
			hi, n := bits.Mul64(uint64(part.bytes), uint64(part.count))
			if hi != 0 || n > math.MaxInt64-total {
				return out, fmt.Errorf("keys and values of %d tokens are more bytes than can be counted", p.o.KVTokens)
			}
			total += n
		}
	}
	if shared > 0 {
		notes.add(fmt.Sprintf("the last %d layers use the keys and values of layers before them", shared))
	}
	if latent && p.o.Ranks > 1 {
		notes.add("every rank keeps the whole of what low-rank attention, or one vector for all heads, keeps")
	}
	out.kv, out.notes = int64(total), notes.list
	return out, nil
}

// kept is so many entries of so many bytes.
type kept struct{ bytes, count int64 }

// keeps lists what a rank keeps in a layer of the tokens, state left out.
func (p *planner) keeps(l *topology.LayerCache, notes *notes) []kept {
	per := kvBytes[p.o.KVFormat]
	tokens := p.o.KVTokens
	seen := tokens
	if w := l.Window; w > 0 && w < tokens {
		seen = w
		notes.add(fmt.Sprintf("layers with a sliding window keep %d tokens; counted for one sequence", w))
	}
	elements := l.Keys + l.Values
	if !l.Latent {
		if l.Keys > 0 && p.heads(l.Keys, l.Dim) == 0 {
			notes.add("the number of heads of keys and values is not known: every rank is counted with all")
		}
		elements = p.headRows(l.Keys, l.Dim) + p.headRows(l.Values, l.Dim)
	}
	if l.OneProjection && l.Keys > 0 {
		notes.add("where one projection gives keys and values both are kept: they are normalized and turned differently")
	}
	list := []kept{{elements * per, seen}}
	entries := tokens
	if l.Rate > 0 {
		entries = tokens / l.Rate
		list = append(list, kept{l.Entry * per, entries})
		notes.add(fmt.Sprintf("beside the window, compressed layers keep one entry for %d tokens", l.Rate))
	}
	if d := l.Index; d > 0 {
		list = append(list, kept{topology.IndexBytes(d), entries})
		notes.add(fmt.Sprintf("keys of the indexer, %d FP8 values with a scale for 128, are in it; of the tokens that it does not choose a token reads less than all", d))
	}
	return list
}

// rankState is what a rank keeps of one sequence in a layer, whatever its length.
func (p *planner) rankState(l *topology.LayerCache, notes *notes) int64 {
	switch {
	case l.StateUnknown && l.Keys > 0:
		notes.add("keys and values that layers compress at a rate that the config does not say are counted uncompressed: an upper bound")
		return 0
	case l.StateUnknown:
		notes.add("layers with linear attention keep a state of a size that the config does not say; it is not counted")
		return 0
	case l.State == 0:
		return 0
	case l.Keys > 0:
		notes.add(fmt.Sprintf("compressed layers keep %d bytes of a sequence for the window that is open at 1/%d", l.State, l.Rate))
		return l.State
	}
	n := divided(l.State, int64(p.o.Ranks))
	notes.add(fmt.Sprintf("layers with linear attention keep %d bytes a layer and sequence on a rank, whatever its length; counted for one sequence", n))
	return n
}

// notes keeps each note once.
type notes struct {
	list []string
	seen map[string]bool
}

func newNotes() *notes { return &notes{seen: map[string]bool{}} }

func (n *notes) add(text string) {
	if !n.seen[text] {
		n.seen[text] = true
		n.list = append(n.list, text)
	}
}

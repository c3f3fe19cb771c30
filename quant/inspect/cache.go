package inspect

import (
	"math"
	"math/bits"

	"quantscope/quant/topology"
)

// Cache is what each layer of a kind keeps of a text while more of it comes, keys and
// values in bf16, states in the formats that they are computed in.
type Cache struct {
	Attention string `json:"attention"` // as the config names it; full_attention where it says nothing
	MTP       bool   `json:"mtp"`
	Layers    int    `json:"layers"`

	BytesPerToken int64 `json:"bytes_per_token"` // of a layer, of tokens in the window
	Window        int64 `json:"window"`          // tokens that are kept, 0: all
	EntryBytes    int64 `json:"entry_bytes"`     // of a compressed entry, the indexer's key included
	EntryTokens   int64 `json:"entry_tokens"`    // that an entry stands for; 0: there are none
	StateBytes    int64 `json:"state_bytes"`     // of a sequence, whatever its length; -1: the config does not say
	Shared        bool  `json:"shared"`          // nothing is kept: other layers' keys and values are used
}

// caches groups layers that keep the same, by their first layers.
func caches(m *topology.Model) []Cache {
	list := []Cache{}
	at := map[Cache]int{}
	for _, l := range m.Caches() {
		c := cacheOf(&l)
		n, ok := at[c]
		if !ok {
			n = len(list)
			at[c] = n
			list = append(list, c)
		}
		list[n].Layers++
	}
	return list
}

func cacheOf(l *topology.LayerCache) Cache {
	c := Cache{Attention: l.Type, MTP: l.MTP, BytesPerToken: 2 * (l.Keys + l.Values), Window: l.Window, StateBytes: l.State, Shared: l.Shared}
	if c.Attention == "" {
		c.Attention = topology.FullAttention
		if l.State > 0 || l.StateUnknown {
			c.Attention = topology.LinearAttention
		}
	}
	if l.StateUnknown {
		c.StateBytes = -1
	}
	index := int64(0)
	if l.Index > 0 {
		index = topology.IndexBytes(l.Index)
	}
	if l.Rate > 0 {
		c.EntryBytes, c.EntryTokens = 2*l.Entry+index, l.Rate
	} else {
		c.BytesPerToken += index
	}
	return c
}

// CacheBytes is what all layers but those of MTP keep of one sequence of so many
// tokens. What is more than can be counted is the largest number there is.
func CacheBytes(list []Cache, tokens int64) int64 {
	total := int64(0)
	add := func(each, count, layers int64) {
		if hi, n := bits.Mul64(uint64(each), uint64(count)); hi == 0 && n <= math.MaxInt64 {
			if hi, n = bits.Mul64(n, uint64(layers)); hi == 0 && n <= uint64(math.MaxInt64-total) {
				total += int64(n)
				return
			}
		}
		total = math.MaxInt64
	}
	for i := range list {
		c := &list[i]
		if c.MTP || c.Shared {
			continue
		}
		kept := max(tokens, 0)
		if c.Window > 0 {
			kept = min(kept, c.Window)
		}
		add(c.BytesPerToken, kept, int64(c.Layers))
		if c.EntryTokens > 0 {
			add(c.EntryBytes, max(tokens, 0)/c.EntryTokens, int64(c.Layers))
		}
		add(max(c.StateBytes, 0), 1, int64(c.Layers))
	}
	return total
}

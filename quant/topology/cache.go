package topology

import "slices"

// LayerCache is what a layer keeps of a text while more of it comes, in elements of
// keys and values whatever their format.
type LayerCache struct {
	Layer int
	MTP   bool
	Type  string // of attention, as Config.LayerType; "" where the config says nothing

	// Shared layers keep nothing: they use keys and values of a layer before them.
	Shared bool

	// Of a token: Keys and Values elements, of heads of Dim (0: not known). Values is
	// 0 where one vector is both.
	Keys, Values, Dim int64
	// Latent is one vector for all heads, which devices cannot divide.
	Latent bool
	// OneProjection says that keys and values come from the same weights; both are
	// kept, being normalized and turned differently.
	OneProjection bool
	// Window is how many tokens of them are kept, 0: all.
	Window int64

	// Rate tokens are one compressed entry of Entry elements, beside the window; 0:
	// there are none.
	Rate, Entry int64
	// Index are the elements of the indexer's key of a token, or of an entry where
	// there are entries; 0 where there is none.
	Index int64

	// State is bytes kept of a sequence whatever its length: the state of linear
	// attention and the inputs of its convolution, the open windows of compression.
	State        int64
	StateUnknown bool // there is one, of a size that the config does not say
}

// stored is what the tensors of a layer's attention tell of its cache.
type stored struct {
	mtp               bool
	k, v, qkv, kv     int64 // outputs of the projections
	latent, linear    bool
	index, compressed bool
	packed            bool // its sides do not say how many outputs there are
}

// Caches is what each layer with attention keeps, by layer.
func (m *Model) Caches() []LayerCache {
	layers, order := m.attentionStored()
	var out []LayerCache
	for _, l := range order {
		out = append(out, m.cacheOf(l, layers[l]))
	}
	return out
}

// attentionStored gathers what each layer projects, and the layers in order.
func (m *Model) attentionStored() (map[int]*stored, []int) {
	rows := map[int]int64{} // of each tensor that is a matrix
	for k := range m.Matrices {
		rows[m.MatrixTensor[k]] = int64(m.Matrices[k].Rows)
	}
	layers := map[int]*stored{}
	var order []int
	for i := range m.Tensors {
		r := &m.Roles[i]
		if r.Kind != Attention || r.Layer < 0 || !primary(r.Param) {
			continue
		}
		is := layers[r.Layer]
		if is == nil {
			is = &stored{mtp: r.MTP}
			layers[r.Layer] = is
			order = append(order, r.Layer)
		}
		n, ok := rows[i]
		if !ok && len(m.Tensors[i].Shape) > 0 {
			n = m.Tensors[i].Shape[0]
			is.packed = is.packed || params[r.Param] == packedCodes && (r.Projection == "k" || r.Projection == "qkv")
		}
		is.add(r.Projection, n)
	}
	slices.Sort(order)
	return layers, order
}

func (is *stored) add(projection string, rows int64) {
	switch projection {
	case "k":
		is.k = rows
	case "v":
		is.v = rows
	case "qkv":
		is.qkv = rows
	case "kv":
		is.kv = rows
	case "kv_a", "qkv_a":
		is.latent = true
	case "conv", "a_log", "qkvz":
		is.linear = true
	case "indexer.k", "indexer.compressor.kv":
		is.index = true
	case "compressor.kv":
		is.compressed = true
	}
}

// cacheOf is what a layer keeps, by what is stored of it and what the config says.
func (m *Model) cacheOf(layer int, is *stored) LayerCache {
	c := &m.Config
	_, heads, dim := c.AttentionSizes(layer)
	l := LayerCache{Layer: layer, MTP: is.mtp, Type: c.LayerType(layer)}
	switch {
	case is.linear:
		l.State = c.linearState()
		l.StateUnknown = l.State == 0
		return l
	case !is.mtp && c.SharedKV(layer):
		l.Shared = true
		return l
	}
	l.Window, l.Dim = int64(c.Window(layer)), int64(dim)
	switch {
	case is.latent:
		l.Keys, l.Latent = int64(c.KVLoRA)+int64(c.QKRope), true
	case is.kv > 0:
		l.Keys, l.Latent, l.Window = is.kv, true, int64(c.window)
	case is.qkv > 0 && is.k == 0 || is.packed && heads*dim > 0:
		l.Keys, l.Values = int64(heads)*int64(dim), int64(heads)*int64(dim)
	default:
		l.Keys, l.Values = is.k, is.v
		if l.OneProjection = is.v == 0; l.OneProjection {
			l.Values = l.Keys
		}
	}
	if is.compressed {
		l.Rate, l.Entry = int64(c.CompressRate(layer)), l.Keys
		if l.Rate == 0 { // counted uncompressed: an upper bound
			l.Entry, l.Window, l.StateUnknown = 0, 0, true
		}
	}
	if is.index {
		l.Index = int64(c.IndexDim)
	}
	l.State += l.openWindows(l.Entry)
	if l.Rate > 0 {
		l.State += l.openWindows(l.Index)
	}
	return l
}

// linearState is what gated delta nets keep of a sequence: an f32 state of value
// heads × key width × value width, and the inputs of the convolution in two bytes. 0
// where the config does not say.
func (c *Config) linearState() int64 {
	l := &c.Linear
	if !l.Known() {
		return 0
	}
	state := 4 * int64(l.Values()) * int64(l.KeyDim)
	return state + 2*(2*int64(l.Keys())+int64(l.Values()))*int64(l.Taps-1)
}

// openWindows is what compression to entries of so many elements keeps of tokens
// whose window is not complete: an f32 value and an f32 weight of each, and with
// compressed sparse attention, whose windows overlap, both twice as wide and of two
// windows.
func (l *LayerCache) openWindows(entry int64) int64 {
	if l.Rate == 0 || entry == 0 {
		return 0
	}
	twice := int64(1)
	if l.Type == CompressedSparse {
		twice = 2
	}
	return 2 * 4 * (twice * l.Rate) * (twice * entry)
}

// IndexBytes is what servers keep of one key of an indexer of so many elements: FP8
// values, and an f32 scale for each 128 of them.
func IndexBytes(elements int64) int64 { return elements + 4*((elements+127)/128) }

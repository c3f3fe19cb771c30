package model

// layerCache are the keys and values of one layer that were made so far.
type layerCache struct {
	k, v   []float32
	broken bool // a value is not finite
}

// cut forgets all but the first n tokens.
func (c *layerCache) cut(a *Attention, n int) {
	c.k, c.v = c.k[:n*a.KVHeads*a.Dim], c.v[:n*a.KVHeads*a.VDim]
}

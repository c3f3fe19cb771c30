package topology

// contradictions notes what in a config excludes something else in it.
func (r *reader) contradictions() {
	c := r.cfg
	if l := c.Linear; l.KeyHeads > 0 && l.ValueHeads > 0 && l.ValueHeads%l.KeyHeads != 0 {
		r.notef("linear_num_value_heads %d is no multiple of linear_num_key_heads %d", l.ValueHeads, l.KeyHeads)
	}
	if !c.Linear.Known() {
		for l := range c.Layers {
			if c.LayerType(l) == LinearAttention && c.Linear != (LinearSizes{}) {
				r.notef("layer %d has linear attention, and one of linear_num_key_heads, linear_num_value_heads, linear_key_head_dim, linear_value_head_dim and linear_conv_kernel_dim is not given", l)
				break
			}
		}
	}
	for l := range c.Layers {
		if q, kv, _ := c.AttentionSizes(l); q > 0 && kv > 0 && q%kv != 0 && c.LayerType(l) != LinearAttention {
			r.notef("layer %d: %d heads of queries are no multiple of %d of keys and values", l, q, kv)
			break
		}
	}
	if c.Experts > 0 && c.TopK > c.Experts {
		r.notef("a token takes %d experts of %d", c.TopK, c.Experts)
	}
	r.checkSharedKV()
	r.checkMoELayers()
}

// checkSharedKV notes layers that are to use keys and values that no layer has.
func (r *reader) checkSharedKV() {
	c := r.cfg
	if c.sharedKV == 0 || c.Layers == 0 {
		return
	}
	first := c.Layers - c.sharedKV
	if first <= 0 {
		r.notef("num_kv_shared_layers is %d of %s: no layer has keys and values", c.sharedKV, counted(c.Layers, "layer"))
		return
	}
	has := map[string]bool{}
	for l := range first {
		has[c.LayerType(l)] = true
	}
	for l := first; l < c.Layers; l++ {
		if t := c.LayerType(l); !has[t] {
			r.notef("layer %d uses the keys and values of a layer of type %s, and none before layer %d is one", l, t, first)
			return
		}
	}
}

// checkMoELayers notes lists of layers with experts that fit no layer.
func (r *reader) checkMoELayers() {
	c := r.cfg
	if c.Layers == 0 {
		return
	}
	for _, key := range []string{"mlp_layer_types", "moe_layer_freq"} {
		if n := len(listOf(r.obj[key])); n > 0 && n != c.Layers && n != c.Layers+c.MTPLayers {
			r.notef("%s has %s, num_hidden_layers is %d", key, countedEntries(n), c.Layers)
		}
	}
	last := -1
	for l := range c.moe.listed {
		last = max(last, l)
	}
	if last >= c.Layers+c.MTPLayers && !r.listsEntries() {
		r.notef("a list of layers with experts names layer %d of %d", last, c.Layers)
	}
}

// listsEntries says whether layers with experts are listed by one entry a layer,
// whose length is noted already.
func (r *reader) listsEntries() bool {
	return len(listOf(r.obj["mlp_layer_types"]))+len(listOf(r.obj["moe_layer_freq"])) > 0
}

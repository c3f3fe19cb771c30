package topology

// path is a tensor's name taken apart: what stands before the layer is gone,
// the expert's number stands aside, the parameter's suffix too.
type path struct {
	layer  int // as written; -1 outside any layer
	expert int // -1 where there is none
	mtp    bool
	vision bool
	module []byte // the module below the layer, as mlp.experts.#.gate_proj; scratch of the scanner
	param  string // the suffix; "weight" where the name has none
}

// Bounds on what is taken for a number in a name. The largest model in use has
// a few hundred layers and under a thousand experts a layer.
const (
	maxLayers   = 1 << 16
	maxExperts  = 1 << 16
	maxSegments = 24
)

// scanner takes names apart without allocating. It is for one goroutine.
type scanner struct {
	segs   [maxSegments]string
	module []byte
}

// scan takes a name apart. It is false where the name is not of the form that
// every family shares: dotted, without empty parts.
func (s *scanner) scan(name string) (path, bool) {
	segs, ok := s.split(name)
	if !ok {
		return path{}, false
	}
	p := path{layer: -1, expert: -1, param: "weight"}
	segs = p.takeParam(segs)
	segs = p.takePrefix(segs)
	s.module = s.module[:0]
	if p.vision || len(segs) == 0 {
		return p, p.vision || p.layer >= 0
	}
	for i, seg := range segs {
		if len(s.module) > 0 {
			s.module = append(s.module, '.')
		}
		if n, ok := number(seg, maxExperts); ok && i > 0 && segs[i-1] == "experts" {
			p.expert = n
			s.module = append(s.module, '#')
			continue
		}
		s.module = append(s.module, seg...)
	}
	p.module = s.module
	return p, true
}

func (s *scanner) split(name string) ([]string, bool) {
	n, start := 0, 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '.' {
			continue
		}
		if i == start || n == maxSegments {
			return nil, false
		}
		s.segs[n] = name[start:i]
		n++
		start = i + 1
	}
	return s.segs[:n], true
}

// takeParam cuts the parameter's suffix off, where there is one.
func (p *path) takeParam(segs []string) []string {
	last := len(segs) - 1
	if last >= 2 && segs[last-1] == "weight" {
		if sub, ok := weightParts[segs[last]]; ok {
			p.param = sub
			return segs[:last-1]
		}
	}
	if last >= 3 && segs[last-2] == "weight" && segs[last-1] == "quant_state" {
		p.param = "weight.quant_state"
		return segs[:last-2]
	}
	if _, ok := params[segs[last]]; ok && last > 0 {
		p.param = segs[last]
		return segs[:last]
	}
	return segs
}

// takePrefix cuts off the wrappers and the layer, and notices towers and MTP.
func (p *path) takePrefix(segs []string) []string {
	for len(segs) > 0 {
		seg := segs[0]
		index, numbered := -1, false
		if len(segs) > 1 {
			index, numbered = number(segs[1], maxLayers)
		}
		switch {
		case towers[seg]:
			p.vision = true
			return nil
		case numbered && layerLists[seg]:
			p.layer = index
			return inLayer(segs[2:])
		case numbered && mtpLists[seg]:
			p.layer, p.mtp = index, true
			return inLayer(segs[2:])
		case numbered && mtpParts[seg]:
			p.layer, p.mtp = index, true
			segs[1] = seg
			return segs[1:]
		case seg == "mtp":
			p.mtp = true
			segs = segs[1:]
		case len(segs) > 1 && wrappers[seg]:
			segs = segs[1:]
		default:
			return segs
		}
	}
	return segs
}

// inLayer cuts off the one level that some MTP layers put in between.
func inLayer(segs []string) []string {
	if len(segs) > 1 && (segs[0] == "transformer" || segs[0] == "mtp_block") {
		return segs[1:]
	}
	return segs
}

// number reads a canonical decimal below limit: digits only, no leading zero.
func number(s string, limit int) (int, bool) {
	if len(s) == 0 || len(s) > 7 || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n < limit
}

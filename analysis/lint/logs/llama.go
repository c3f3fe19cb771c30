package logs

import (
	"regexp"
	"strconv"
	"strings"
)

// Lines of llama-quantize: of a tensor, of a fallback as newer and as older
// versions write it, and of what it was asked for.
var (
	llamaTensor   = regexp.MustCompile(`^\[ *\d+/ *\d+\] +(\S+) +- \[([ \d,]+)\], type = +(\w+), ?(.*)$`)
	llamaFallback = regexp.MustCompile(`^warning: (\S+) +- ncols +\d+ not divisible by +\d+ \(required for type +(\w+)\)`)
	llamaOld      = regexp.MustCompile(`tensor cols \d+ x \d+ are not divisible by \d+, required for (\w+)`)
	llamaConvert  = regexp.MustCompile(`converting to (\w+) \.\.`)
	llamaDry      = regexp.MustCompile(`size = .*-> .*\((\w+)\)`)
	llamaWanted   = regexp.MustCompile(`quantizing '.*' to '.*' as (\w+)`)
)

// llama keeps what llama-quantize says of types.
func (p *parser) llama(f Fragment) {
	if f.Hidden {
		return
	}
	t := f.Text
	switch {
	case strings.HasPrefix(t, "["):
		m := llamaTensor.FindStringSubmatch(t)
		if m == nil {
			return
		}
		p.tensor = m[1]
		effective := ""
		switch c := llamaConvert.FindStringSubmatch(m[4]); {
		case c != nil:
			effective = c[1]
		case strings.HasPrefix(m[4], "size ="):
			effective = m[3]
			if d := llamaDry.FindStringSubmatch(m[4]); d != nil {
				effective = d[1]
			}
		default: // the rest of the line comes after a fallback
			p.open, p.params = m[1], paramsOf(m[2])
			return
		}
		p.tensorIs(m[1], effective, paramsOf(m[2]))
	case strings.HasPrefix(t, "warning:"):
		if m := llamaFallback.FindStringSubmatch(t); m != nil && len(p.fell) < maxTensors {
			p.fell[m[1]] = strings.ToLower(m[2])
		}
	case strings.Contains(t, "required for "):
		if m := llamaOld.FindStringSubmatch(t); m != nil && p.tensor != "" && len(p.fell) < maxTensors {
			p.fell[p.tensor] = strings.ToLower(m[1])
		}
		p.rest(t)
	case strings.Contains(t, "converting to "):
		p.rest(t)
	case strings.Contains(t, "quantizing '"):
		if m := llamaWanted.FindStringSubmatch(t); m != nil {
			p.rep.Wanted = m[1]
		}
	}
}

// maxTensors bounds the fallbacks that are kept by name.
const maxTensors = 1 << 18

// rest is the end of a tensor's line that a message stands in the middle of.
func (p *parser) rest(t string) {
	if m := llamaConvert.FindStringSubmatch(t); m != nil && p.open != "" {
		p.tensorIs(p.open, m[1], p.params)
	}
}

// tensorIs counts a tensor.
func (p *parser) tensorIs(name, effective string, params int64) {
	p.open = ""
	effective = strings.ToLower(effective)
	requested, fell := p.fell[name]
	if !fell {
		requested = effective
	}
	key := [2]string{requested, effective}
	i, ok := p.types[key]
	if !ok {
		i = len(p.rep.Types)
		p.types[key] = i
		p.rep.Types = append(p.rep.Types, TypeShare{Requested: requested, Effective: effective, First: name})
	}
	p.rep.Types[i].Tensors++
	p.rep.Types[i].Params += params
}

// paramsOf is the product of sides as they are printed.
func paramsOf(sides string) int64 {
	n := int64(1)
	for s := range strings.SplitSeq(sides, ",") {
		d, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil || d < 0 || d > 0 && n > 1<<62/d {
			return 0
		}
		n *= d
	}
	return n
}

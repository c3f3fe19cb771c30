package layout

import (
	"encoding/json"
	"fmt"

	"quantscope/kernels"
)

// EXL3 is exllamav3's method. Its codes are paths through a trellis, which are not
// decoded here; what it was exported to is.
const EXL3 = "exl3"

// PlainExport is the ID of findings about a config that names a method where all
// weights are plain.
const PlainExport = "plain-export"

// errTrellis says what to do with codes that cannot be read.
var errTrellis = fmt.Errorf("codes of a trellis are not decoded here: %w; export the model to bf16 and read that folder", kernels.ErrUnsupported)

// buildTrellis refuses EXL3's matrices, all in one finding.
func buildTrellis(o *opener, f *form, g *group) ([]Module, error) {
	o.unread(g)
	o.repeat(UnknownForm, g.params["trellis"], EXL3, "is %s %s: %v", f.method, f.name, errTrellis)
	return nil, nil
}

// plainExport says that the config is left over where it names a method that does
// not list what it leaves alone, and nothing is quantized. Methods that do list it
// have a finding for each matrix.
func (o *opener) plainExport() {
	c := o.config
	if c.file == "" || c.lists() || len(o.Modules) > 0 || len(o.Unread) > 0 {
		return
	}
	n, first := 0, -1
	for i := range o.groups {
		g := &o.groups[i]
		w := g.params["weight"]
		if w == nil || !plain(w) || !isLinear(w, g.roles["weight"]) {
			continue
		}
		if n++; first < 0 {
			first = i
		}
	}
	if first < 0 {
		return
	}
	t := o.groups[first].params["weight"]
	o.findf(PlainExport, t, "is %s, as are all of %d matrices, though %s of %s says that they are quantized: they are read as they stand, as what was exported from that", t.DType, n, c.method, c.file)
}

// methodOf is quant_method, "" where none can be read.
func methodOf(raw []byte) string {
	var q struct {
		Method string `json:"quant_method"`
	}
	if json.Unmarshal(raw, &q) != nil {
		return ""
	}
	return q.Method
}

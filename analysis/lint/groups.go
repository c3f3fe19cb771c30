package lint

import (
	"context"
	"errors"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// groups reads g_idx and the zero points of GPTQ, which layout.Open does not, and
// nothing else. What a config cannot be read for is said by the rule about it.
func groups(ctx context.Context, c *checkpoint.Checkpoint, m *topology.Model) ([]Finding, error) {
	l, err := layout.Open(c, m)
	if err != nil {
		var file *checkpoint.FileError
		if errors.As(err, &file) {
			err = ctx.Err()
		}
		return nil, err
	}
	var out []Finding
	for i := range l.Modules {
		found, err := l.Modules[i].Groups(ctx)
		if err != nil {
			return out, err
		}
		for _, f := range found {
			x := Finding{Severity: Error, File: f.File, Tensor: f.Tensor, Message: f.Message, Fix: groupsFix[f.ID]}
			if f.ID == layout.ZeroPointZero {
				x.Severity = Warning
			}
			out = append(out, x)
		}
	}
	return out, nil
}

// groupsFix says what to do, by the layout's finding.
var groupsFix = map[string]string{
	layout.GroupRange:    "write g_idx again, or group_size as it was when the groups were made",
	layout.ZeroPointZero: "store the checkpoint as gptq_v2, in which zero points are what they are",
	layout.NotMiddle:     "write sym false, or quantize this module again",
}

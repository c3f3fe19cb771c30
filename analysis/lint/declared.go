package lint

import (
	"context"
	"errors"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// declared holds what is stored quantized against what the quantization config
// says of it, and the config against the older file beside it; it reads headers
// and scales of one number. A pattern that matches nothing is a warning, since
// tools write such for modules that only some models of a family have.
func declared(_ context.Context, c *checkpoint.Checkpoint, m *topology.Model) ([]Finding, error) {
	l, err := layout.Open(c, m)
	if err != nil {
		var file *checkpoint.FileError
		if !errors.As(err, &file) {
			return nil, err
		}
		return []Finding{{Severity: Error, File: file.File, Message: file.Error(), Fix: "write the quantization config anew"}}, nil
	}
	var out []Finding
	for _, f := range l.Findings {
		x := Finding{Severity: Error, File: f.File, Tensor: f.Tensor, Message: f.Message, Fix: declaredFix[f.ID]}
		switch f.ID {
		case layout.UnmatchedPattern, layout.UnreadPattern, layout.NoGroupIndex:
			x.Severity = Warning
		}
		out = append(out, x)
	}
	return out, nil
}

// declaredFix says what to do, by the layout's finding.
var declaredFix = map[string]string{
	layout.Undeclared:       "declare the module in the config's groups",
	layout.Ignored:          "take the module off the ignore list",
	layout.NotQuantized:     "add the module to the ignore list: a server looks for scales that are not there",
	layout.Contradicts:      "write the format that is stored into the config",
	layout.ConfigsDisagree:  "write both files from one list",
	layout.UnmatchedPattern: "take the pattern out, or correct it",
	layout.UnreadPattern:    "write the pattern so that it can be held against names",
	layout.Incomplete:       "write the module again: a part of it is missing or has another shape",
	layout.UnknownForm:      "nothing here can read it; see the known forms in the message",
	layout.Mislabelled:      "write the checkpoint_format that the zero points are stored in",
	layout.NoGroupIndex:     "write g_idx: some servers read it whatever desc_act says",
}

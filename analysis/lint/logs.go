package lint

import (
	"fmt"
)

// logs passes on what logs say, and what llama-quantize says of types.
func (r *run) logs() error {
	for _, log := range r.Logs {
		for i := range log.Events {
			e := &log.Events[i]
			f := Finding{File: log.Path, Line: e.Line, Tensor: e.Module, Message: fmt.Sprintf("line %d: %s", e.Line, e.String())}
			if e.Mild && KindOf(e.ID).Severity.rank() > Note.rank() && e.ID != "log-failed" {
				f.Severity = Note
			}
			if e.Tool != "" {
				f.Evidence = append(f.Evidence, Evidence{"tool", e.Tool})
			}
			f.Evidence = append(f.Evidence, Evidence{"line", fmt.Sprint(e.Line)})
			if e.Count > 1 {
				f.Evidence = append(f.Evidence, Evidence{"times", fmt.Sprintf("%d, to line %d", e.Count, e.Last)})
			}
			if e.Hidden {
				f.Evidence = append(f.Evidence, Evidence{"seen", "written over on a terminal before anybody could read it"})
			}
			r.add(e.ID, f)
		}
		var s shares
		for _, t := range log.Types {
			s.addMany(log.Path, t.Requested, t.Effective, t.First, t.Tensors, t.Params, t.Requested != t.Effective)
		}
		r.rep.Effective = append(r.rep.Effective, s.list()...)
	}
	return nil
}

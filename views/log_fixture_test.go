package views

import (
	"fmt"

	"quantscope/sessions"
)

// withLog adds a run's events to a state.
func withLog(s *sessions.State) *sessions.State {
	at, seq := int64(0), int64(1000)
	add := func(kind sessions.EventKind, variant, tensor int, message string) {
		at += 731_000
		seq++
		s.Log = append(s.Log, sessions.Event{Seq: seq, AtUS: at, Kind: kind, Variant: variant, Tensor: tensor, Message: message})
	}
	add(sessions.EventCreated, -1, -1, "demo: glm4_moe, 5 MoE layers, 240 experts, 10.4 MB; targets: routed experts")
	for v := range s.Variants {
		add(sessions.EventVariant, v, -1, "4.5 bits/weight")
	}
	add(sessions.EventStarted, -1, -1, "3 variants over 240 tensors, 2 workers, kernels ref")
	add(sessions.EventFinding, -1, 12, "largest magnitude 31.5 is 80 times the median of its row\nblock 3 of row 17")
	add(sessions.EventPaused, -1, -1, "")
	add(sessions.EventResumed, -1, -1, "")
	add(sessions.EventFailed, 1, 20, "model-00001-of-00002.safetensors: read at byte 4096: unexpected end of file")
	add(sessions.EventFallback, 2, 77, "nvfp4+mse_ge1 is not defined for 16 columns: nvfp4 ran")
	for i := range 12 {
		add(sessions.EventFinding, i%len(s.Variants), 3*i, fmt.Sprintf("%d blocks are all zero", i+1))
	}
	add(sessions.EventFinished, -1, -1, "720 measured in 0:07.312")
	return s
}

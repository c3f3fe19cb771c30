package gates

import (
	"context"

	"quantscope/analysis/gates/chat"
)

// exam puts to an arm the questions that doubt its answers, before it is asked any
// probe.
type exam struct {
	*run
	t chat.Target
	m *Meter
}

func (e *exam) all(ctx context.Context) error { return ctx.Err() }

func (e *exam) after(ctx context.Context) {}

package landscape

import (
	"context"
	"errors"
)

var errNotYet = errors.New("landscape: not built yet")

// Analyze describes one arm of a table. The error is that of ctx.
func Analyze(ctx context.Context, t *Table, arm int) (*Report, error) { return nil, errNotYet }

package convert

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Report is what was found in a copy that was read again.
type Report struct {
	Modules    int       `json:"modules"`
	CodesEqual int       `json:"codes_equal"` // modules whose codes are the same, every one
	Elements   int64     `json:"elements"`
	Values     Values    `json:"values"`
	Scales     Scales    `json:"global_scales"`
	Untouched  Untouched `json:"untouched"`
	Problems   []Problem `json:"problems"` // what is not as promised
}

// Values compares what each layout's own formula makes of the same codes.
type Values struct {
	Equal    int64  `json:"equal"`
	Differ   int64  `json:"differ"`
	Rounded  int64  `json:"rounded"`     // of those, that are the same but for the narrower type that one layout computes in
	BF16     int64  `json:"bf16_differ"` // that differ once both are rounded to bf16
	MaxAbs   Figure `json:"max_abs"`
	MaxRel   Figure `json:"max_rel"`
	Module   string `json:"worst_module"` // of MaxRel; "" where nothing differs
	NegZeros int64  `json:"zero_signs"`   // zeros that have a sign in one of the two; they count as equal
}

// Scales are second-level scales that became their reciprocals.
type Scales struct {
	Reciprocal int `json:"reciprocal"` // of how many modules
	RoundTrip  int `json:"round_trip"` // of those, whose reciprocal's reciprocal is the scale again, bit for bit
}

// Untouched counts what belongs to no quantized module.
type Untouched struct {
	Tensors   int `json:"tensors"`
	Identical int `json:"identical"`
}

// Problem is something that is not as promised.
type Problem struct {
	Tensor  string `json:"tensor"`
	Message string `json:"message"`
}

// OK says whether everything is as promised.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// maxProblems bounds the list.
const maxProblems = 100

// checker is the work of one Check.
type checker struct {
	*Plan
	out    *checkpoint.Checkpoint
	layout *layout.Layout

	mu     sync.Mutex
	report Report
}

func (c *checker) problem(tensor, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, Problem{tensor, fmt.Sprintf(format, args...)})
	}
}

// Check reads a copy and compares all of it with its source. What differs is in the
// report; an error is one of reading.
func (p *Plan) Check(ctx context.Context, dir string, threads int) (Report, error) {
	out, err := checkpoint.Open(dir)
	if err != nil {
		return Report{}, err
	}
	defer out.Close()
	model, err := topology.FromCheckpoint(out)
	if err != nil {
		return Report{}, err
	}
	l, err := layout.Open(out, model)
	if err != nil {
		return Report{}, err
	}
	c := &checker{Plan: p, out: out, layout: l, report: Report{Modules: len(p.pieces), Problems: []Problem{}}}
	for _, f := range l.Findings {
		switch f.ID {
		case layout.UnmatchedPattern, layout.UnreadPattern: // of entries that came along
		default:
			c.problem(f.Tensor, "%s: %s", f.ID, f.Message)
		}
	}
	if len(l.Modules) != len(p.pieces) {
		c.problem("", "%d modules are quantized, in the source %d", len(l.Modules), len(p.pieces))
	}
	if err := each(ctx, max(threads, 1), len(p.pieces), c.module); err != nil {
		return Report{}, err
	}
	if err := c.untouched(ctx); err != nil {
		return Report{}, err
	}
	slices.SortStableFunc(c.report.Problems, func(a, b Problem) int { return bytes.Compare([]byte(a.Tensor), []byte(b.Tensor)) })
	return c.report, nil
}

// untouched compares every tensor that was to be copied.
func (c *checker) untouched(ctx context.Context) error {
	made := 0
	for i := range c.pieces {
		made += len(c.pieces[i].unit.Tensors)
	}
	a, b := make([]byte, copyBytes), make([]byte, copyBytes)
	for i := range c.ck.Tensors {
		t := &c.ck.Tensors[i]
		if c.gone[t.Name] {
			continue
		}
		c.report.Untouched.Tensors++
		o, ok := c.out.Lookup(t.Name)
		if !ok || o.DType != t.DType || !slices.Equal(o.Shape, t.Shape) || c.out.Files[o.File].Name != c.ck.Files[t.File].Name {
			c.problem(t.Name, "is not what it was, by its name, type, shape and file")
			continue
		}
		same := true
		for off := int64(0); off < t.Size && same; off += copyBytes {
			n := min(copyBytes, t.Size-off)
			if err := c.ck.ReadAt(ctx, t, off, a[:n]); err != nil {
				return err
			}
			if err := c.out.ReadAt(ctx, o, off, b[:n]); err != nil {
				return err
			}
			same = bytes.Equal(a[:n], b[:n])
		}
		if !same {
			c.problem(t.Name, "has other bytes than in the source")
			continue
		}
		c.report.Untouched.Identical++
	}
	if want := c.report.Untouched.Tensors + made; len(c.out.Tensors) != want {
		c.problem("", "%d tensors are stored, want %d", len(c.out.Tensors), want)
	}
	return nil
}

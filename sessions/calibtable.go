package sessions

import (
	"context"
	"strings"
)

// putCalibration writes what a calibrated run is of.
func (in *inserts) putCalibration(ctx context.Context, e *stored) error {
	s := e.calibSetup
	_, err := in.calib.ExecContext(ctx, e.calib, e.Seq, s.Variant, string(RunRunning), s.Corpus, s.CorpusSHA, s.Chunks, s.Tokens, s.Rank.Need,
		s.Damp, strings.Join(s.Only, ","), s.Inputs, s.Codes, len(s.Units), s.KernelSet, s.Program, s.ParamsOfAll)
	return err
}

// putUnit writes a unit, its matrices and the tokens of its experts.
func (in *inserts) putUnit(ctx context.Context, e *stored) error {
	u := e.unit
	if _, err := in.calibUnit.ExecContext(ctx, e.calib, e.calib, u.Unit, e.Seq, asInt(u.Again), len(u.Matrices), u.Seconds); err != nil {
		return err
	}
	for i := range u.Matrices {
		m := &u.Matrices[i]
		var why, rows any
		if m.Why != "" {
			why = m.Why
		}
		if m.OutRows > 0 {
			rows = m.OutRows
		}
		if _, err := in.calibrated.ExecContext(ctx, e.calib, m.Tensor, e.Variant, e.Seq, u.Unit, m.Effective, why, asInt(m.Chosen), m.Input, m.Tokens, m.N,
			orNull(m.Rank), float64(m.Cond), float64(m.DampShare), m.Dead, m.Codes, m.Changed,
			float64(m.Rel2), float64(m.BaseRel2), float64(m.Out2), float64(m.BaseOut2), rows); err != nil {
			return err
		}
	}
	for _, c := range u.Counts {
		for x, n := range c.Expert {
			if _, err := in.tokens.ExecContext(ctx, e.calib, c.Layer, asInt(c.MTP), x, n, c.Tokens, c.TopK); err != nil {
				return err
			}
		}
	}
	return nil
}

// asInt is a boolean as SQLite keeps it.
func asInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

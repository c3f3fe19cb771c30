package sessions

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

//go:embed schema.sql
var schema string

// inserts are the prepared statements of one connection: the events, and the
// tables that are derived from them.
type inserts struct {
	event, session, tensor, variant, tap, finding, log *sql.Stmt
	yard, yardEnd, candidate, corpus, score            *sql.Stmt
	calib, calibUnit, calibrated, tokens, calibEnd     *sql.Stmt
	recipe, recipeGroup, assigned                      *sql.Stmt
	gates, gateEnd, arm, opened, probe, item           *sql.Stmt
	replaced, answer, meter, unchecked, check          *sql.Stmt
	biasRun, biasEnd, biasParty, biasWeights           *sql.Stmt
	biasTensor, biasRow, biasKL                        *sql.Stmt
	tierRun, tierEnd, tierBudget, tierResult           *sql.Stmt
	tierWindow, tierMove                               *sql.Stmt
}

func values(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// prepare makes the statements ready on c.
func prepare(ctx context.Context, c *sql.Conn) (*inserts, error) {
	var in inserts
	for _, s := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&in.event, "insert into events (seq, at_us, kind, variant, tensor, payload, crc) values " + values(7)},
		{&in.session, "insert or replace into session (key, value) values " + values(2)},
		{&in.tensor, "insert or replace into tensors (id, name, source, file, dtype, rows, cols, kind, layer, expert, projection, param, mtp) values " + values(13)},
		{&in.variant, "insert or replace into variants (id, seq, name, effective, scheme, bits_per_weight) values " + values(6)},
		{&in.tap, "insert or replace into taps (variant, tensor, seq, failed, cos, rel2, rel_l2, sqnr_db, max_abs_err, amax, global_scale," +
			" scale_min, scale_mean, scale_max, w2, e2, std, kurtosis, elements, blocks, zero_blocks, non_finite, scale_high, scale_low, scale_subnormal," +
			" shallow, deep, subnormal_clipped, shallow_l2, deep_l2, depth, sign_bias, row_bias_rms, row_bias_max, codebook, l2_rel2, sym_rel2) values " + values(37)},
		{&in.finding, "insert or replace into findings (seq, variant, tensor, code, value, bound, message) values " + values(7)},
		{&in.log, "insert or replace into log (seq, at_us, kind, variant, tensor, message) values " + values(6)},
		{&in.yard, "insert or replace into yards (id, seq, state, reference, identity, activations, scored, kernel_set, program, positions) values " + values(10)},
		{&in.yardEnd, "update yards set state = ?, reason = ? where id = ?"},
		{&in.candidate, "insert or replace into candidates (yard, id, label, spec, kind, path, identity, effective, bits_per_weight, bytes, floor, baseline, of, derived) values " + values(14)},
		{&in.corpus, "insert or replace into corpora (yard, id, name, source, sha256, chunks, tokens, bos) values " + values(8)},
		{&in.score, "insert or replace into scores (yard, candidate, corpus, chunk, seq, positions, finite, nan, infinite, kl, kl_max, kl_reverse, nll, ref_nll, top1) values " + values(15)},
		{&in.calib, "insert or replace into calibrations (id, seq, variant, state, corpus, sha256, chunks, tokens, needed, damp, only, inputs, codes, units, kernel_set, program, params) values " + values(17)},
		{&in.calibUnit, "insert or replace into units (calibration, id, unit, seq, again, matrices, seconds) values (?, (select count(*) from units where calibration = ?), ?, ?, ?, ?, ?)"},
		{&in.calibrated, "insert or replace into calibrated (calibration, tensor, variant, seq, unit, effective, why, chosen, input, tokens, n, rank, cond, damp_share, dead," +
			" codes, changed, rel2, base_rel2, out2, base_out2, out_rows) values " + values(22)},
		{&in.tokens, "insert or replace into tokens (calibration, layer, mtp, expert, count, of, top_k) values " + values(7)},
		{&in.recipe, "insert or replace into recipes (variant, seq, name, sha256, text, groups, kept) values " + values(7)},
		{&in.recipeGroup, "insert or replace into recipe_groups (variant, id, name, scheme, convention, bits_per_weight, tensors) values " + values(7)},
		{&in.assigned, "insert or replace into assigned (variant, tensor, group_id) values " + values(3)},
		{&in.gates, "insert or replace into gate_runs (id, seq, state, suite, path, sha256, probes, arms, answers, texts, settings, kernel_set, program) values " + values(13)},
		{&in.gateEnd, "update gate_runs set state = ?, reason = ? where id = ?"},
		{&in.arm, "insert or replace into arms (run, id, label, spec, role) values " + values(5)},
		{&in.opened, "update arms set kind = ?, at = ?, model = ?, engine = ?, version = ?, effective = ?, content = ?, fingerprint = ?, speculative = ?, max_tokens = ? where run = ? and id = ?"},
		{&in.probe, "insert or replace into probes (run, id, name, family, about, grader, cases, passes, need, timed) values " + values(10)},
		{&in.item, "insert or replace into cases (run, probe, id, name, tokens, depth) values " + values(6)},
		{&in.replaced, "update answers set replaced = 1 where run = ? and arm = ? and probe = ? and case_id = ? and pass = ?"},
		{&in.answer, "insert or replace into answers (seq, run, arm, probe, case_id, pass, replaced, passed, fault, reason, error, turns, finish," +
			" prompt_tokens, completion_tokens, cached_tokens, replacement, invalid, retries, first_seconds, seconds, text) values " + values(22)},
		{&in.meter, "insert or replace into meters (run, arm, seq, seconds, tokens, tokens_per_s, generated, steps, drafts, drafted, accepted, acceptance, accepted_length," +
			" cache_queries, cache_hits, positions, nll, ppl, median_rank, kl_lower_bound, top1) values " + values(21)},
		{&in.unchecked, "delete from checks where run = ? and arm = ?"},
		{&in.check, "insert or replace into checks (run, arm, id, name, state, message) values " + values(6)},
		{&in.biasRun, "insert or replace into bias_runs (id, seq, state, reference, identity, activations, layers, hidden, positions, corpora, kernel_set, program) values " + values(12)},
		{&in.biasEnd, "update bias_runs set state = ?, reason = ? where id = ?"},
		{&in.biasParty, "insert or replace into bias_candidates (run, id, label, spec, kind, identity, effective, bits_per_weight) values " + values(8)},
		{&in.biasWeights, "insert or replace into bias_weights (run, candidate, layer, seq, tensors, rel_l2, bias, abs_bias, abs_bias_null, row_rms, row_rms_null, row_max, positive, codebooks) values " + values(14)},
		{&in.biasTensor, "insert or replace into bias_tensors (run, candidate, id, name, layer, expert, rel_l2, bias, row_rms, row_max) values " + values(10)},
		{&in.biasRow, "insert or replace into bias_rows (run, candidate, layer, part, seq, positions, nonfinite, rel_l2, bias, gain, ref, shift, shift_null, shift_null_max) values " + values(14)},
		{&in.biasKL, "insert or replace into bias_kl (run, candidate, seq, positions, kl, kl_stderr, top1) values " + values(7)},
		{&in.tierRun, "insert or replace into tier_runs (id, seq, state, model, identity, hot, cold, routed, workload, workload_kind, workload_sha256, tokens, layers, experts, top_k," +
			" window, decay, hysteresis, stay, moves, per_layer, trace, seed, kernel_set, program) values " + values(25)},
		{&in.tierEnd, "update tier_runs set state = ?, reason = ?, knee = ?, rise = ?, noise = ?, verdict = ? where id = ?"},
		{&in.tierBudget, "insert or replace into tier_budgets (run, id, label, bytes, share) values " + values(5)},
		{&in.tierResult, "update tier_budgets set windows = ?, coverage = ?, hits = ?, hits_settled = ?, hits_hindsight = ?, promoted = ?, evicted = ?, churn = ?, churn_per_window = ?, held = ?," +
			" hot_bytes = ?, replace_bytes = ?, beside_bytes = ?, hits_random = ?, hits_coldest = ? where run = ? and id = ?"},
		{&in.tierWindow, "insert or replace into tier_windows (run, budget, id, seq, first, tokens, pairs, hits, promoted, evicted, churn, hot, hot_bytes, held) values " + values(14)},
		{&in.tierMove, "insert or replace into tier_moves (run, budget, window, id, layer, expert, up, score) values " + values(8)},
		{&in.calibEnd, "update calibrations set state = ?, reason = ?, calibrated = ?, changed = ?, fell_back = ?, gate = ? where id = ?"},
	} {
		st, err := c.PrepareContext(ctx, s.query)
		if err != nil {
			in.close()
			return nil, err
		}
		*s.to = st
	}
	return &in, nil
}

func (in *inserts) close() {
	for _, s := range []*sql.Stmt{in.event, in.session, in.tensor, in.variant, in.tap, in.finding, in.log, in.yard, in.yardEnd, in.candidate, in.corpus, in.score,
		in.calib, in.calibUnit, in.calibrated, in.tokens, in.calibEnd, in.recipe, in.recipeGroup, in.assigned,
		in.gates, in.gateEnd, in.arm, in.opened, in.probe, in.item, in.replaced, in.answer, in.meter, in.unchecked, in.check,
		in.biasRun, in.biasEnd, in.biasParty, in.biasWeights, in.biasTensor, in.biasRow, in.biasKL,
		in.tierRun, in.tierEnd, in.tierBudget, in.tierResult, in.tierWindow, in.tierMove} {
		if s != nil {
			_ = s.Close() // frees memory only
		}
	}
}

// store writes one event and what is derived from it.
func (in *inserts) store(ctx context.Context, e *stored) error {
	crc := eventSum(e.Seq, e.AtUS, e.Variant, e.Tensor, string(e.Kind), e.payload)
	if _, err := in.event.ExecContext(ctx, e.Seq, e.AtUS, string(e.Kind), e.Variant, e.Tensor, e.payload, crc); err != nil {
		return err
	}
	return in.derive(ctx, e)
}

// derive writes the rows of the typed tables that follow from one event.
func (in *inserts) derive(ctx context.Context, e *stored) error {
	switch e.Kind {
	case EventTap:
		return in.putTap(ctx, &e.rec)
	case EventTensors:
		return in.putTensors(ctx, e.payload)
	case EventScore:
		return in.putScores(ctx, e)
	case EventAnswer:
		return in.putAnswer(ctx, e)
	case EventGates, EventArm, EventMeter, EventGatesEnd:
		if err := in.putGate(ctx, e); err != nil {
			return err
		}
	case EventBiasFound:
		return in.putBias(ctx, e)
	case EventWindow, EventMoves:
		return in.putTier(ctx, e)
	case EventBias, EventBiasEnd:
		if err := in.putBias(ctx, e); err != nil {
			return err
		}
	case EventTier, EventTierEnd:
		if err := in.putTier(ctx, e); err != nil {
			return err
		}
	case EventYard:
		if err := in.putYard(ctx, e); err != nil {
			return err
		}
	case EventYardEnd:
		if _, err := in.yardEnd.ExecContext(ctx, string(e.end.State), e.end.Reason, e.yard); err != nil {
			return err
		}
	case EventCalib:
		if err := in.putCalibration(ctx, e); err != nil {
			return err
		}
	case EventUnit:
		if err := in.putUnit(ctx, e); err != nil {
			return err
		}
	case EventCalibEnd:
		n := e.calibEnd
		if _, err := in.calibEnd.ExecContext(ctx, string(n.State), n.Reason, n.Calibrated, n.Changed, n.FellBack, n.Gate, e.calib); err != nil {
			return err
		}
	case EventPlan:
		if err := in.putRecipe(ctx, e); err != nil {
			return err
		}
	case EventFailed:
		if err := in.putTap(ctx, &e.rec); err != nil {
			return err
		}
	case EventVariant:
		v := e.variant
		if _, err := in.variant.ExecContext(ctx, v.ID, e.Seq, v.Name, v.Effective, v.Scheme, v.BitsPerWeight); err != nil {
			return err
		}
	case EventFinding:
		if _, err := in.finding.ExecContext(ctx, e.Seq, orNull(e.Variant), orNull(e.Tensor), e.note.Code,
			figureOrNull(e.note.Value), figureOrNull(e.note.Bound), e.Message); err != nil {
			return err
		}
	case EventCreated:
		if err := in.putSession(ctx, e); err != nil {
			return err
		}
	}
	_, err := in.log.ExecContext(ctx, e.Seq, e.AtUS, string(e.Kind), orNull(e.Variant), orNull(e.Tensor), e.Message)
	return err
}

func (in *inserts) putTap(ctx context.Context, r *Record) error {
	if r.Failed {
		args := make([]any, 37)
		args[0], args[1], args[2], args[3], args[21] = r.Variant, r.Tensor, r.Seq, 1, r.NonFinite
		_, err := in.tap.ExecContext(ctx, args...)
		return err
	}
	var depth [len(r.Depth) * binary.MaxVarintLen32]byte
	n := 0
	for _, d := range r.Depth {
		n += binary.PutUvarint(depth[n:], uint64(d))
	}
	_, err := in.tap.ExecContext(ctx, r.Variant, r.Tensor, r.Seq, 0, r.Cos, r.Rel2, r.RelL2, r.SQNR, r.MaxAbsErr, r.Amax, r.GlobalScale,
		r.ScaleMin, r.ScaleMean, r.ScaleMax, r.W2, r.E2, r.Std, r.Kurtosis, r.Elements, r.Blocks, r.ZeroBlocks, r.NonFinite, r.ScaleHigh, r.ScaleLow, r.ScaleSubnormal,
		r.Shallow, r.Deep, r.SubnormalClipped, r.ShallowL2, r.DeepL2, depth[:n],
		r.Bias, r.RowBias, r.RowBiasMax, orNothing(CodebookText(r.Codebook)), r.L2, r.Sym)
	return err
}

func (in *inserts) putTensors(ctx context.Context, payload []byte) error {
	ts, err := decodeTensorChunk(payload)
	if err != nil {
		return err
	}
	for _, t := range ts {
		mtp := 0
		if t.Role.MTP {
			mtp = 1
		}
		if _, err := in.tensor.ExecContext(ctx, t.ID, t.Name, t.Source, t.File, t.DType, t.Rows, t.Cols, t.Role.Kind.String(),
			orNull(t.Role.Layer), orNull(t.Role.Expert), t.Role.Projection, t.Role.Param, mtp); err != nil {
			return err
		}
	}
	return nil
}

// putSession writes what the session says of itself, as text.
func (in *inserts) putSession(ctx context.Context, e *stored) error {
	m := e.note.Meta
	if m == nil {
		return fmt.Errorf("a created event holds no meta")
	}
	rows := map[string]string{
		"source_path": m.SourcePath, "source_abs": m.SourceAbs, "source_identity": m.SourceIdentity, "family": m.Family, "summary": m.Summary,
		"layers": strconv.Itoa(m.Layers), "mtp_layers": strconv.Itoa(m.MTPLayers), "experts": strconv.Itoa(m.Experts),
		"source_bytes": strconv.FormatInt(m.SourceBytes, 10), "targets": m.Targets, "program": m.Program, "kernel_set": m.KernelSet,
		"tensors": strconv.Itoa(m.Tensors), "created": time.UnixMilli(m.CreatedUnixMS).UTC().Format("2006-01-02T15:04:05.000Z"),
	}
	for name, value := range e.note.Settings {
		rows["setting."+name] = value
	}
	for k, v := range rows {
		if _, err := in.session.ExecContext(ctx, k, v); err != nil {
			return err
		}
	}
	return nil
}

func orNull(id int) any {
	if id < 0 {
		return nil
	}
	return id
}

func figureOrNull(f *Figure) any {
	if f == nil {
		return nil
	}
	return float64(*f)
}

// derivedTables are those that rebuild empties and fills anew.
var derivedTables = []string{"session", "tensors", "variants", "taps", "findings", "log", "yards", "candidates", "corpora", "scores",
	"calibrations", "units", "calibrated", "tokens", "recipes", "recipe_groups", "assigned",
	"gate_runs", "arms", "probes", "cases", "answers", "meters", "checks",
	"bias_runs", "bias_candidates", "bias_weights", "bias_tensors", "bias_rows", "bias_kl",
	"tier_runs", "tier_budgets", "tier_windows", "tier_moves"}

// rebuild makes all derived tables and views anew from the events. It brings a
// file of an older format up to this one, since events are the same in all.
func rebuild(ctx context.Context, c *sql.Conn) error {
	return inTx(ctx, c, func() error {
		if _, err := c.ExecContext(ctx, fmt.Sprintf("pragma user_version = %d", formatVersion)); err != nil {
			return err
		}
		for _, t := range derivedTables {
			if _, err := c.ExecContext(ctx, "drop table if exists "+t); err != nil {
				return err
			}
		}
		for _, s := range strings.Split(schema, ";\n") {
			s = strings.TrimSpace(s)
			if name, ok := strings.CutPrefix(s, "create view "); ok {
				name, _, _ = strings.Cut(name, " ")
				if _, err := c.ExecContext(ctx, "drop view if exists "+name); err != nil {
					return err
				}
			}
			if s == "" || strings.Contains(s, "create table events") || strings.HasPrefix(s, "create index events_log") {
				continue
			}
			if _, err := c.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return refill(ctx, c)
	})
}

// refillRows is how many events refill holds in memory at once.
const refillRows = 4096

// refill derives the typed tables from all events.
func refill(ctx context.Context, c *sql.Conn) error {
	in, err := prepare(ctx, c)
	if err != nil {
		return err
	}
	defer in.close()
	for after := int64(0); ; {
		events, more, err := readEvents(ctx, c, after, refillRows)
		if err != nil {
			return err
		}
		for i := range events {
			if err := in.derive(ctx, &events[i]); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		after = events[len(events)-1].Seq
	}
}

// inTx runs f in one transaction of the connection, which takes the write lock
// at once.
func inTx(ctx context.Context, c *sql.Conn, f func() error) error {
	if _, err := c.ExecContext(ctx, "begin immediate"); err != nil {
		return err
	}
	err := f()
	if err == nil {
		if _, err = c.ExecContext(ctx, "commit"); err == nil {
			return nil
		}
	}
	_, _ = c.ExecContext(context.WithoutCancel(ctx), "rollback") // the first error says more; a full disk has rolled back already
	return err
}

package census

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Fixed is what a repair did.
type Fixed struct {
	Out         string   `json:"out"`
	Groups      int      `json:"groups"` // that differed
	Compensated int      `json:"compensated"`
	Requantized int      `json:"requantized"`
	Method      string   `json:"method,omitempty"` // that requantization was weighed with
	Against     string   `json:"against"`          // what the errors are against: master, or stored
	Stored      float64  `json:"rel_l2_stored"`    // over all groups that differed, as they were; 0 without a master
	Written     float64  `json:"rel_l2_written"`   // as they are now
	ByComp      *float64 `json:"rel_l2_compensated"`
	ByRequant   *float64 `json:"rel_l2_requantized"` // null where it was not possible for all of them
	Clamped     int64    `json:"clamped"`            // block scales of what was compensated
	Underflowed int64    `json:"underflowed"`
	Files       int      `json:"files"`
	Bytes       int64    `json:"bytes"`
	Notes       []string `json:"notes"`
}

// Fix writes a copy of the checkpoint in which the members of each group that
// differs share one second-level scale, and everything else has the source's
// bytes. A group is mended by compensation, whichever member's scale it keeps, or
// by requantizing all of its members from the master, whichever loses less; what
// Prove weighed with Options.Fix is not weighed again. Without a master (nil)
// there is only compensation, held against what is stored. The result is the
// census with the choices in it; rep stays as it is.
//
// In the config of quantscope's own exports the receipt says that scales are
// shared then, and how many groups were mended how.
//
// See export.Rewrite for how the folder is written, and for errors.
func Fix(ctx context.Context, rep *Report, ck *checkpoint.Checkpoint, model *topology.Model, master *Master, out string, o Options) (*Report, *Fixed, error) {
	if rep.Pairs == 0 {
		return nil, nil, fmt.Errorf("%w: %s", ErrNothing, rep.Note)
	}
	if err := export.Vacant(ck, out); err != nil {
		return nil, nil, err
	}
	r, err := begin(rep, ck, model, master, o)
	if err != nil {
		return nil, nil, err
	}
	if err := r.decide(ctx); err != nil {
		return nil, nil, err
	}
	r.sortLeft()
	if err := r.related(); err != nil {
		return nil, nil, err
	}
	f := r.fixed(out)
	config, err := r.config(f)
	if err != nil {
		return nil, nil, err
	}
	edits := make([]export.Edit, 0, 2*len(r.jobs))
	for i := range r.jobs {
		edits = append(edits, r.edits(&r.jobs[i])...)
	}
	r.done, r.total = 0, 0
	for _, file := range ck.Files {
		r.total += file.Size
	}
	res, err := export.Rewrite(ctx, ck, out, edits, export.RewriteOptions{
		Config: config, Threads: r.Threads, Progress: func(n int64) { r.progress(n, out) },
	})
	if err != nil {
		return nil, nil, err
	}
	f.Files, f.Bytes = res.Files, res.Bytes
	return r.rep, f, nil
}

// decide chooses for every group that has no choice yet.
func (r *run) decide(ctx context.Context) error {
	return r.each(ctx, func(x *weigher, j *job) error {
		if j.group.Fix != nil && j.group.Fix.decided {
			return nil
		}
		members, left := r.members(j, r.master != nil)
		if left != nil { // then what is stored is all there is
			r.left(left...)
			members, _ = r.members(j, false)
		}
		again, err := r.weighed(ctx, x, members, len(members), members[0].source != nil)
		if err != nil {
			return err
		}
		j.group.Fix = r.choose(members, again)
		return nil
	})
}

// unrelated is a relative error that no scheme leaves of its own source: what is
// as far from the master was not made of it. Unrelated weights are at about √2.
const unrelated = 0.5

// ErrMaster is wrapped by the error about a master that the checkpoint was not
// made of.
var ErrMaster = errors.New("not what it was made of")

// ErrNothing is wrapped by the error about a checkpoint that has nothing to mend.
var ErrNothing = errors.New("nothing to fix")

// related refuses a master that a group is too far from, whose weights would
// otherwise take the place of the checkpoint's.
func (r *run) related() error {
	for i := range r.jobs {
		c := r.jobs[i].group.Fix
		if c.Requantized != nil && c.Stored != nil && *c.Stored > unrelated {
			return fmt.Errorf("%s: %w: rel_l2 of %s as stored is %.3g against it", r.master.ck.Path, ErrMaster, r.jobs[i].modules[0].Name, *c.Stored)
		}
	}
	return nil
}

// fixed sums the choices up.
func (r *run) fixed(out string) *Fixed {
	f := &Fixed{Out: out, Groups: len(r.jobs), Notes: []string{}}
	var w2, written float64
	var e2 [3]float64
	all := true
	for i := range r.jobs {
		c := r.jobs[i].group.Fix
		if f.Against == "" {
			f.Against = c.Against
		} else if f.Against != c.Against {
			f.Against = "master, or stored where that has no such matrix"
		}
		w2 += c.w2
		for k := range e2 {
			e2[k] += c.e2[k]
		}
		all = all && c.Requantized != nil
		if c.By == ByRequantization {
			f.Requantized++
			written += c.e2[requantized]
			continue
		}
		f.Compensated++
		f.Clamped += c.Clamped
		f.Underflowed += c.Underflowed
		written += c.e2[compensated]
	}
	rel := func(e float64) float64 {
		if w2 == 0 {
			return 0
		}
		return math.Sqrt(e / w2)
	}
	if len(r.jobs) == 0 {
		f.Against = "stored"
		f.Notes = append(f.Notes, "nothing differs: the copy has the source's bytes")
		return f
	}
	f.Stored, f.Written = rel(e2[asStored]), rel(written)
	comp := rel(e2[compensated])
	f.ByComp = &comp
	if all {
		again := rel(e2[requantized])
		f.ByRequant = &again
	}
	if r.master == nil {
		f.Notes = append(f.Notes, "without a master only compensation is possible, and errors are against what was stored")
		return f
	}
	spec, note := r.specOf(r.jobs[0].modules[0])
	f.Method = spec.Format + "+" + spec.Method + " by " + spec.Convention.String()
	if note != "" {
		f.Notes = append(f.Notes, note)
	}
	return f
}

// edits are what a job writes, one for each member.
func (r *run) edits(j *job) []export.Edit {
	var out []export.Edit
	for k, mod := range j.modules {
		var files []int
		for _, f := range mod.Fields {
			if !slices.Contains(files, f.Tensor.File) {
				files = append(files, f.Tensor.File)
			}
		}
		apply := func(ctx context.Context, put export.Put) error { return r.compensate(ctx, j, k, put) }
		if j.group.Fix.By == ByRequantization {
			apply = func(ctx context.Context, put export.Put) error { return r.requantize(ctx, j, k, put) }
		} else if k == j.group.Fix.base {
			continue
		}
		out = append(out, export.Edit{Files: files, Apply: apply})
	}
	return out
}

// putGlobal gives a member the scale of its group.
func (c *Choice) putGlobal(m *layout.Module, put export.Put) error {
	t, at := m.GlobalTensor(), placeOf(m)
	if t.DType != checkpoint.F32 {
		return fmt.Errorf("census: %s: a second-level scale of %s cannot be written", t.Name, t.DType)
	}
	return put(t, at.offset, binary.LittleEndian.AppendUint32(nil, math.Float32bits(c.global)))
}

// fieldOffset is where a module's part of a tensor begins.
func fieldOffset(m *layout.Module, t *checkpoint.Tensor) int64 {
	for _, f := range m.Fields {
		if f.Tensor == t {
			return f.Offset
		}
	}
	return 0
}

// compensate writes the block scales of a member, and its second-level scale.
func (r *run) compensate(ctx context.Context, j *job, k int, put export.Put) error {
	m, c := j.modules[k], j.group.Fix
	own, err := m.Global(ctx)
	if err != nil {
		return err
	}
	if own == c.global {
		return nil
	}
	table := export.Compensate(own, c.global, divides(m))
	t, off := m.ScaleTensor(), fieldOffset(m, m.ScaleTensor())
	var s layout.Stored
	for first := 0; first < m.Rows; {
		n := min(chunkRows(m.Cols), m.Rows-first)
		if err := m.Read(ctx, &s, first, n); err != nil {
			return err
		}
		table.Apply(s.Scales, s.Scales)
		if err := put(t, off, s.Scales); err != nil {
			return err
		}
		off += int64(len(s.Scales))
		first += n
	}
	return c.putGlobal(m, put)
}

// requantize makes a member again of the master and writes it.
func (r *run) requantize(ctx context.Context, j *job, k int, put export.Put) error {
	m, c := j.modules[k], j.group.Fix
	source, why := r.master.of(m)
	if why != "" {
		return fmt.Errorf("census: %s: %s", m.Name, why)
	}
	spec, _ := r.specOf(j.modules[0])
	pass, err := r.Set.Begin(spec, source.elem, m.Rows, m.Cols, c.amax)
	if err != nil {
		return fmt.Errorf("census: %s: %w", m.Name, err)
	}
	defer func() { _, _ = pass.Finish() }() // gives back what it holds where a read fails
	codes, scales := fieldOffset(m, m.CodeTensor()), fieldOffset(m, m.ScaleTensor())
	var made kernels.Output
	for first := 0; first < m.Rows; {
		n := min(chunkRows(m.Cols), m.Rows-first)
		data, err := source.rows(ctx, first, n)
		if err != nil {
			return err
		}
		size := pass.Sizes(n)
		made.Codes, made.Scales = grow(made.Codes, size.Codes), grow(made.Scales, size.Scales)
		if err := pass.Rows(data, &made); err != nil {
			return fmt.Errorf("census: %s: %w", m.Name, err)
		}
		if err := put(m.CodeTensor(), codes, made.Codes); err != nil {
			return err
		}
		if err := put(m.ScaleTensor(), scales, made.Scales); err != nil {
			return err
		}
		codes, scales = codes+int64(size.Codes), scales+int64(size.Scales)
		first += n
	}
	return c.putGlobal(m, put)
}

// config is the source's config with a receipt that says what was done; nil
// where it has none.
func (r *run) config(f *Fixed) ([]byte, error) {
	const key, own = "quantization_config", "quantscope"
	if r.layout.Receipt.Variant == "" || r.layout.File != "config.json" || f.Groups == 0 {
		return nil, nil
	}
	var whole, quant map[string]json.RawMessage
	err := json.Unmarshal(r.ck.ConfigJSON(), &whole)
	if err == nil {
		err = json.Unmarshal(whole[key], &quant)
	}
	text := []byte(quant[own])
	for _, m := range []struct {
		key   string
		value any
	}{
		{"global_scale", export.Shared.String()},
		{"fixed", layout.Repair{Compensated: f.Compensated, Requantized: f.Requantized}},
	} {
		var value []byte
		if err == nil {
			value, err = json.Marshal(m.value)
		}
		if err == nil {
			text, err = checkpoint.SetMember(text, m.key, value)
		}
	}
	for _, level := range []struct {
		in  []byte
		key string
	}{{whole[key], own}, {r.ck.Config, key}} {
		if err == nil {
			text, err = checkpoint.SetMember(level.in, level.key, text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: config.json: %w", ErrConfig, err)
	}
	return text, nil
}

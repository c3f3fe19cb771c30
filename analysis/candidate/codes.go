package candidate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/codes"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// openCodes opens a folder of codes as a candidate against the reference that
// they are of: matrices decode from the codes, everything else is the reference's.
func openCodes(ctx context.Context, ref *Candidate, dir string, o Options) (*Candidate, error) {
	store, err := codes.Open(dir)
	if err != nil {
		return nil, err
	}
	c, err := ofCodes(ctx, ref, store, o)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	c.Path = dir
	return c, nil
}

// ofCodes is a candidate of codes, which it closes.
func ofCodes(ctx context.Context, ref *Candidate, store *codes.Store, o Options) (*Candidate, error) {
	s, err := readCodes(ctx, ref, store)
	if err != nil {
		return nil, err
	}
	c, err := makeOf(ref, s.choices, s.globals, o)
	if err != nil {
		return nil, &checkpoint.FileError{File: store.Dir(), Reason: "makes nothing of the reference", Err: err}
	}
	m := store.Manifest()
	c.Kind, c.Effective, c.Fallbacks = Codes, s.variant.Name+atTargets(m.Targets), append(c.Fallbacks, s.fallbacks...)
	if _, excluded, err := selectTargets(ref.Topology, strings.TrimPrefix(atTargets(m.Targets), "@"), nil); err == nil {
		c.Fallbacks = append(c.Fallbacks, fallbacks(ref.Topology, excluded, s.variant.Name)...)
	}
	c.Calibrated = calibratedOn(&m)
	c.calib = []*codes.Store{store}
	c.base = s.base
	c.Baseline = s.baseline(ref, &m)
	c.close = store.Close
	return c, nil
}

// storedCodes are what a folder says, held against a reference.
type storedCodes struct {
	variant   method.Variant
	globals   export.Globals
	choices   []choice
	base      []choice // the same matrices by the variant's baseline
	fallbacks []Fallback
}

// readCodes reads all units of a folder once: what each matrix really is, and that
// it is the reference's.
func readCodes(ctx context.Context, ref *Candidate, store *codes.Store) (*storedCodes, error) {
	m := store.Manifest()
	fail := func(tensor, reason string, err error) error {
		return &checkpoint.FileError{File: store.Dir(), Tensor: tensor, Reason: reason, Err: err}
	}
	switch {
	case ref.Topology == nil || ref.Arch == nil:
		return nil, fmt.Errorf("%w %s: the reference %s has no topology to hold codes against", ErrSpec, store.Dir(), ref.Label)
	case m.Source != ref.Identity:
		return nil, fail("", fmt.Sprintf("holds codes of checkpoint %.12s…, and the reference %s is %.12s…", m.Source, ref.Label, ref.Identity), nil)
	}
	var missing []string
	for _, u := range m.Units {
		if !store.Has(u) {
			missing = append(missing, u)
		}
	}
	if len(missing) > 0 {
		return nil, fail("", fmt.Sprintf("is not finished: %s missing of %d units; quantize --from-codes or the command that made it goes on", listed(missing), len(m.Units)), nil)
	}
	globals, err := export.ParseGlobals(m.GlobalScale)
	if err != nil {
		return nil, fail("", "says no global scales that are known", err)
	}
	named := variants{m.Convention, map[string]method.Variant{}}
	v, err := named.parse(m.Variant)
	if err != nil {
		return nil, fail("", "is of a variant that is not known", err)
	}
	s := &storedCodes{variant: v, globals: globals}
	base, err := named.parse(v.Baseline().Name)
	if err != nil {
		return nil, fail("", "is of a variant without a baseline", err)
	}
	at := map[string]*topology.Matrix{}
	for i := range ref.Topology.Matrices {
		at[ref.Topology.Matrices[i].Name] = &ref.Topology.Matrices[i]
	}
	schemes := map[string]string{}
	for _, it := range ref.inventory() {
		schemes[it.tensor] = it.scheme
	}
	for _, unit := range m.Units {
		list, _, err := store.Unit(unit)
		if err != nil {
			return nil, err
		}
		for i := range list {
			k := &list[i]
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			t, ok := at[k.Name]
			switch {
			case !ok:
				return nil, fail(k.Name, "is no matrix of the reference "+ref.Label, nil)
			case k.Rows != t.Rows || k.Cols != t.Cols:
				return nil, fail(k.Name, fmt.Sprintf("is %d×%d, and %d×%d in the reference", k.Rows, k.Cols, t.Rows, t.Cols), nil)
			}
			// What was left out by choice is at the baseline, as everything is that falls back.
			chosen := k.Effective == base.Name && len(m.Only) > 0 && !slices.Contains(m.Only, t.Role.Projection)
			if k.Effective != v.Name && !chosen && reads(t.Role, ref.Arch) {
				s.fallbacks = append(s.fallbacks, Fallback{k.Name, v.Name, k.Effective, k.Why, int64(k.Rows) * int64(k.Cols)})
			}
			if len(k.Codes) == 0 {
				continue // it stays the reference's
			}
			e, err := named.parse(k.Effective)
			if err != nil {
				return nil, fail(k.Name, "is of a variant that is not known", err)
			}
			if _, err := decodable(kernels.Best(), e.Spec, k); err != nil {
				return nil, fail(k.Name, "cannot be decoded", err)
			}
			s.choices = append(s.choices, choice{m: *t, v: e, from: store, digest: digestOf(k)})
			s.base = append(s.base, choice{m: *t, v: base})
		}
	}
	for i := range s.fallbacks { // those without codes say how they are stored
		if f := &s.fallbacks[i]; f.Effective == "" {
			f.Effective = schemes[f.Tensor]
		}
	}
	return s, nil
}

// variants parses names once each, in one convention.
type variants struct {
	convention string
	known      map[string]method.Variant
}

func (n *variants) parse(name string) (method.Variant, error) {
	if v, ok := n.known[name]; ok {
		return v, nil
	}
	v, err := method.Parse(name)
	if err != nil {
		return v, err
	}
	if n.convention != "" {
		c, err := method.ParseConvention(n.convention)
		if err != nil {
			return v, err
		}
		if v, err = v.WithConvention(c); err != nil {
			return v, err
		}
	}
	n.known[name] = v
	return v, nil
}

// decodable takes stored codes for a matrix that decodes.
func decodable(set kernels.Set, spec kernels.Spec, k *codes.Matrix) (*coded, error) {
	spec.Codebook = k.Codebook
	return newCoded(set, spec, k.Rows, k.Cols, 0, 0, k.Codes, k.Scales, k.Mins, k.Global)
}

// digestOf is a SHA-256 over what decides a matrix's weights.
func digestOf(k *codes.Matrix) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %d %d %x %d %d\n", k.Effective, k.Rows, k.Cols, k.Global, len(k.Codes), len(k.Scales))
	if k.Codebook != 0 {
		fmt.Fprintf(h, "%04x\n", k.Codebook)
	}
	for _, b := range [][]byte{k.Codes, k.Scales, k.Mins} {
		_, _ = h.Write(b) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// stored gives the codes of a job whose codes were made before.
func (m *made) stored(ctx context.Context, j *job) (*coded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k, err := j.from.Matrix(j.name)
	if err != nil {
		return nil, err
	}
	if k.Rows != j.rows || k.Cols != j.cols || k.Effective != j.v.Name {
		return nil, &checkpoint.FileError{File: j.from.Dir(), Tensor: j.name, Reason: "changed since the folder was opened"}
	}
	c, err := decodable(m.set, j.v.Spec, &k)
	if err != nil {
		return nil, &checkpoint.FileError{File: j.from.Dir(), Tensor: j.name, Reason: "cannot be decoded", Err: err}
	}
	if m.budget.take(c.size()) {
		m.keep(j, c)
	}
	return c, nil
}

// listed names the first of a list.
func listed(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more are", len(names)-most)
}

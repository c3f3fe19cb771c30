package sessions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"quantscope/analysis/landscape"
	"quantscope/quant/checkpoint"
)

// Base is a session of a checkpoint from which a sample of tensors is taken, to be
// measured under other variants in a session of its own.
type Base struct {
	path     string
	st       *State
	meta     metaJSON
	settings map[string]string
}

// SampleError says why no sample of a checkpoint can be measured beside a base
// session.
type SampleError struct {
	Path   string // of the base session
	Reason string
}

func (e *SampleError) Error() string { return "sessions: " + e.Path + ": no base: " + e.Reason }

// OpenBase reads a base session. One that is damaged or has no records is
// refused, since figures of it would be missing without a word.
func OpenBase(ctx context.Context, path string) (*Base, error) {
	l, err := loadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	switch {
	case l.damage.any():
		return nil, &FileError{Path: path, Reason: "is damaged, so it is no base: " + l.damage.String()}
	case l.st.Progress.Done == 0:
		return nil, &SampleError{path, "it holds no tap record"}
	}
	l.st.interrupt()
	return &Base{path: path, st: l.st, meta: l.meta, settings: l.settings}, nil
}

// State is what the base session holds. It is not to be changed.
func (b *Base) State() *State { return b.st }

// StartSample is Start over some tensors of a base session, IDs of its, under the
// settings that its numbers were made with. how says how they were drawn: it and
// the tensors may not change on resume. Of the options Checkpoint, Session,
// Variants, Threads, MemBytes, Program, KernelSet and Clock are used.
//
// The checkpoint must be that of the base session: its identity, the tensors'
// shapes, and the weights of each tensor that is read, where the base session has
// a digest of them. What does not agree is a *SampleError, and an *EnvError once
// the run goes on.
func StartSample(ctx context.Context, o Options, b *Base, tensors []int, how string) (*LiveFeed, error) {
	if o.Export != nil || o.Part.Of > 0 || o.Targets != "" || len(o.Recipes) > 0 {
		return nil, errors.New("sessions: a sample is of a base session, without targets, part or export of its own")
	}
	if len(tensors) == 0 {
		return nil, errors.New("sessions: a sample of no tensor")
	}
	o.sample = true
	o.Targets, o.GlobalScale = b.settings[settingPattern], b.settings[SettingGlobalScale]
	for _, r := range b.st.Recipes {
		o.Recipes = append(o.Recipes, r.source())
	}
	if c := b.settings[SettingConvention]; c != orDefault("") { // else each format's first
		o.Compat = c
	}
	ck, err := openCheckpoint(o.Checkpoint)
	if err != nil {
		return nil, err
	}
	job, err := b.job(ctx, ck, o, tensors, how)
	if err != nil {
		return nil, errors.Join(err, ck.Close())
	}
	return StartJob(ctx, job, o)
}

// job is the job over the sample.
func (b *Base) job(ctx context.Context, ck *checkpoint.Checkpoint, o Options, tensors []int, how string) (*Job, error) {
	if is := ck.Identity().String(); is != b.meta.SourceIdentity {
		return nil, &SampleError{b.path, fmt.Sprintf("it is of another checkpoint (identity %.12s, and %s has %.12s)", b.meta.SourceIdentity, ck.Path, is)}
	}
	for _, name := range o.Variants { // before anything is read
		if strings.HasPrefix(name, RecipePrefix) {
			continue // found among the base session's
		}
		if _, err := o.variant(name); err != nil {
			return nil, err
		}
	}
	job, err := newJob(ck, o)
	if err != nil {
		return nil, err
	}
	if was, is := b.settings[SettingNumerics], job.Settings[SettingNumerics]; was != is {
		return nil, &SampleError{b.path, fmt.Sprintf("%s was %s and is now %s, so its figures cannot be compared", SettingNumerics, orNone(was), orNone(is))}
	}
	if err := b.agrees(job, o.Variants); err != nil {
		return nil, err
	}
	picks, err := b.find(job, tensors)
	if err != nil {
		return nil, err
	}
	job.Source, job.Tensors = job.Source.(pickable).picked(picks) // newJob makes no other
	job.pick(picks)
	if job.shared != nil {
		job.shared.picks = picks
	}
	var names strings.Builder
	for _, t := range job.Tensors {
		names.WriteString(t.Name + "\n")
	}
	job.Settings[SettingSample] = fmt.Sprintf("%s (%s, names %s)", how, count(int64(len(job.Tensors)), "tensor"), digestText(xxh3.HashString(names.String())))
	job.Meta.Targets = how + " of " + job.Meta.Targets
	job.Name += "-sample"
	sampled := &State{Records: make([][]Record, len(b.st.Records))}
	for v, rs := range b.st.Records {
		for _, t := range sortedTensors(tensors) {
			sampled.Records[v] = append(sampled.Records[v], rs[t])
		}
	}
	job.expect = knownDigests(sampled, len(job.Tensors))
	var other *SettingsError
	if err := checkWeights(ctx, b.path, sampled, job); errors.As(err, &other) {
		return nil, &SampleError{b.path, fmt.Sprintf("%s have the digest %s, and it measured %s", other.Setting, other.New, other.Old)}
	} else if err != nil {
		return nil, err
	}
	return job, nil
}

// agrees says whether what the base session calls by the name of a variant is
// what this program makes of it.
func (b *Base) agrees(job *Job, variants []string) error {
	for _, name := range variants {
		q, err := job.Parse(name)
		if err != nil {
			return err
		}
		v := b.st.VariantByName(q.Variant.Name)
		if v < 0 {
			continue
		}
		if was, is := definition(b.st.Variants[v]), definition(q.Variant); was != is {
			return &SampleError{b.path, fmt.Sprintf("its variant %s is %s, here it is %s", name, was, is)}
		}
	}
	return nil
}

// find is where the sampled tensors are in a job over all targets.
func (b *Base) find(job *Job, tensors []int) ([]int, error) {
	at := map[string]int{}
	for i := range job.Tensors {
		at[job.Tensors[i].Name] = i
	}
	var picks []int
	for _, id := range sortedTensors(tensors) {
		if id < 0 || id >= len(b.st.Tensors) {
			return nil, fmt.Errorf("sessions: %s: tensor %d of %d", b.path, id, len(b.st.Tensors))
		}
		was := b.st.Tensors[id]
		i, ok := at[was.Name]
		if !ok {
			return nil, &SampleError{b.path, fmt.Sprintf("its tensor %q is not among the targets of the checkpoint", was.Name)}
		}
		is := job.Tensors[i]
		if is.ID = was.ID; is != was {
			return nil, &SampleError{b.path, fmt.Sprintf("its tensor was %s, and is %s", describe(was), describe(is))}
		}
		picks = append(picks, i)
	}
	return picks, nil
}

// sortedTensors are IDs in the order of the checkpoint, each once.
func sortedTensors(ids []int) []int { return slices.Compact(slices.Sorted(slices.Values(ids))) }

// SampleTable is a table of the base session's tensors with what a run over a
// sample measured beside it: first the arm of the base variant, whose records are
// the base session's and, where it has none, the run's; then an arm a variant
// of the run, which is pending outside of the sample.
func (b *Base) SampleTable(variant int, run *State) *landscape.Table {
	base, sample := b.st.Table(), run.Table()
	at := map[string]int{}
	for i := range base.Items {
		at[base.Items[i].Name] = i
	}
	t := &landscape.Table{Items: base.Items, Arms: []landscape.Arm{base.Arms[variant]}}
	first := &t.Arms[0]
	for v := range run.Variants {
		arm := &sample.Arms[v]
		wide := landscape.Arm{Name: arm.Name, BitsPerWeight: arm.BitsPerWeight, Bytes: make([]int64, len(t.Items)), Samples: make([]landscape.Sample, len(t.Items))}
		for i := range wide.Bytes {
			wide.Bytes[i] = -1
		}
		for i := range sample.Items {
			to, ok := at[sample.Items[i].Name]
			if !ok {
				continue
			}
			wide.Bytes[to], wide.Samples[to] = arm.Bytes[i], arm.Samples[i]
			if it := &sample.Items[i]; !math.IsNaN(it.Std) {
				t.Items[to].Std, t.Items[to].Kurtosis = it.Std, it.Kurtosis
			}
		}
		if wide.Name != first.Name {
			t.Arms = append(t.Arms, wide)
			continue
		}
		for i := range wide.Samples {
			if first.Samples[i].State == landscape.Pending {
				first.Samples[i] = wide.Samples[i]
			}
		}
	}
	return t
}

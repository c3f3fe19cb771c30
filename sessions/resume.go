package sessions

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// A setting is something that a run was told or found.
type setting struct {
	name      string
	mayChange bool // on resume
}

// Settings that decide what the numbers are may not change, so that all records
// of a session can be compared; the others are told with each run's event.
// Job.Settings has a value for each of the former.
const (
	SettingSource      = "source identity"
	SettingTargets     = "targets"
	SettingConvention  = "convention"
	SettingNumerics    = "numerics"
	SettingGlobalScale = "global scale"
	SettingPart        = "part"
	SettingSample      = "sample"
)

var settings = []setting{
	{SettingSource, false},
	{SettingTargets, false},
	{SettingConvention, false},
	{SettingGlobalScale, false}, // over what it is taken; older files have tensor and do not say so
	{SettingPart, false},
	{SettingSample, false},   // which tensors of a base session, and how they were drawn; "" for all
	{SettingNumerics, false}, // version of the kernels' arithmetic
	{"tensors", false},
	{"variants", true}, // more may be added
	{"kernel set", true},
	{"threads", true},
	{"memory", true},
	{"program", true},
}

// reopen reads the session that is to be gone on with and checks that it may be.
func reopen(ctx context.Context, job *Job, o Options, asked []Quantizer) (*opened, error) {
	r, err := openFile(ctx, o.Session, true)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	l, err := load(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	if l.damage.any() {
		return nil, &FileError{Path: o.Session, Reason: "is damaged and can be looked at, not gone on with: " + l.damage.String(), Err: ErrDamaged}
	}
	if err := checkRecipes(o.Session, l.st, job); err != nil {
		return nil, err
	}
	if err := checkSettings(o.Session, l, job); err != nil {
		return nil, err
	}
	if err := checkWeights(ctx, o.Session, l.st, job); err != nil {
		return nil, err
	}
	l.st.interrupt()
	s := &opened{st: l.st, created: l.meta.CreatedUnixMS, resumed: true}
	for _, v := range l.st.Variants {
		q, err := job.Parse(v.Name)
		if err != nil {
			return nil, &FileError{o.Session, "cannot be resumed: its variant is not to be had", err}
		}
		if was, is := definition(v), definition(q.Variant); was != is {
			return nil, &SettingsError{o.Session, "definition of variant " + v.Name, was, is}
		}
		s.variants = append(s.variants, q)
	}
	for _, q := range asked {
		if l.st.VariantByName(q.Variant.Name) >= 0 {
			continue
		}
		added, err := addedEvents(len(s.variants), q)
		if err != nil {
			return nil, err
		}
		s.events = append(s.events, added...)
		s.variants = append(s.variants, q)
	}
	return s, nil
}

// definition is what of a variant decides its numbers, as a line.
func definition(v Variant) string {
	return fmt.Sprintf("%s (%g bits/weight, convention %s, multipliers %s)", v.Scheme, v.BitsPerWeight, v.convention(), strings.Join(v.Multipliers, " "))
}

// checkSettings compares what may not change.
func checkSettings(path string, l *loaded, job *Job) error {
	for _, s := range settings {
		was, is := l.settings[s.name], job.Settings[s.name]
		if s.name == SettingGlobalScale {
			was, is = cmp.Or(was, "tensor"), cmp.Or(is, "tensor")
		}
		if !s.mayChange && was != is {
			return &SettingsError{path, s.name, orNone(was), orNone(is)}
		}
	}
	if was, is := len(l.st.Tensors), len(job.Tensors); was != is {
		return &SettingsError{path, "number of tensors", fmt.Sprint(was), fmt.Sprint(is)}
	}
	for i, was := range l.st.Tensors {
		if is := job.Tensors[i]; was != is {
			return &SettingsError{path, fmt.Sprintf("tensor %d", i), describe(was), describe(is)}
		}
	}
	return nil
}

func describe(t Tensor) string {
	return fmt.Sprintf("%s %s [%d,%d] in %s", t.Name, t.DType, t.Rows, t.Cols, t.File)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// resumeMessage says what a resumed session held.
func resumeMessage(st *State, added int) string {
	parts := []string{fmt.Sprintf("resumed: %d of %s there", st.Progress.Done, count(st.Progress.Total, "measurement"))}
	if st.Progress.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed and tried again", st.Progress.Failed))
	}
	if added > 0 {
		parts = append(parts, count(int64(added), "variant")+" added")
	}
	if st.Progress.State == RunInterrupted {
		parts = append(parts, "the last run was interrupted")
	}
	return strings.Join(parts, ", ")
}

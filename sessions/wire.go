package sessions

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// numerics is the version of the arithmetic behind a tap record. It changes
// when the kernels would give other bits for the same weights, so that records
// of two versions never stand in one session.
const numerics = "1"

// openJob is the job that the options describe, over a real checkpoint.
func openJob(o Options) (*Job, error) {
	for _, name := range o.Variants { // before anything is opened
		if strings.HasPrefix(name, RecipePrefix) {
			continue
		}
		if _, err := o.variant(name); err != nil {
			return nil, err
		}
	}
	if n := len(o.Variants) + len(o.asked()); o.Export != nil && n != 1 {
		return nil, fmt.Errorf("an export is of one variant, and %d are asked for: %w", n, errOneVariant)
	}
	ck, err := openCheckpoint(o.Checkpoint)
	if err != nil {
		return nil, err
	}
	job, err := newJob(ck, o)
	if err == nil && job.fp4() {
		err = o.scalesStay()
	}
	if err != nil {
		return nil, errors.Join(err, ck.Close())
	}
	return job, nil
}

// oddities are what the headers of a checkpoint show, and what was asked for and
// is not measured, a line each.
func oddities(ck *checkpoint.Checkpoint, model *topology.Model, sel recipe.Selection) []string {
	var lines []string
	for _, f := range ck.Findings {
		lines = append(lines, oneLine(strings.Join([]string{f.File, f.Tensor, f.Message}, " ")))
	}
	for _, list := range [][]topology.Finding{model.Findings, model.Unresolved} {
		for _, f := range list {
			lines = append(lines, oneLine(f.Tensor+" "+f.Message))
		}
	}
	if n := len(sel.Excluded); n > 0 {
		lines = append(lines, oneLine(fmt.Sprintf("%s left out that %s names: %s: %s", count(int64(n), "tensor"), sel.Description, sel.Excluded[0].Name, sel.Excluded[0].Reason)))
	}
	return lines
}

func openCheckpoint(path string) (*checkpoint.Checkpoint, error) {
	if path == demo.Label {
		return demo.Open()
	}
	return checkpoint.Open(path)
}

func newJob(ck *checkpoint.Checkpoint, o Options) (*Job, error) {
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		return nil, err
	}
	resolved, err := o.resolve(ck, model)
	if err != nil {
		return nil, err
	}
	sel, plain := targets(model, o.Targets, resolved)
	codes, err := o.fp4Of(ck, model, plain)
	if err != nil {
		return nil, err
	}
	if o.KernelSet.Name == "" {
		o.KernelSet = kernels.Best()
	}
	var whole *storedSource
	var files []int
	if codes != nil {
		sel, files = codes.sel.Selection, codes.whole.files()
	} else {
		if whole, err = newStored(ck, sel.Matrices); err != nil {
			return nil, err
		}
		files = whole.files()
	}
	first, n, err := o.Part.of(ck, files)
	if err != nil {
		return nil, err
	}
	job := &Job{
		Meta: Meta{
			SourcePath: o.Checkpoint, SourceIdentity: ck.Identity().String(), Family: model.Family, Summary: model.Summary,
			Layers: model.Layers, MTPLayers: model.MTPLayers, Experts: model.Experts, SourceBytes: ck.Bytes(), Targets: sel.Description, Part: o.Part,
		},
		Name: demo.Label, Findings: oddities(ck, model, sel),
		Settings: map[string]string{
			SettingSource:      ck.Identity().String(),
			SettingTargets:     sel.Description,
			SettingConvention:  o.convention(),
			SettingGlobalScale: o.globals().String(),
			SettingPart:        o.Part.String(),
			SettingNumerics:    numerics,
			settingPattern:     o.Targets,
		},
	}
	if o.Part.Of > 0 {
		job.part = &partJSON{K: o.Part.K, Of: o.Part.Of, First: first, Whole: len(files)}
	}
	if codes != nil {
		err = codes.fill(ck, job, first, n, o)
	} else {
		err = job.fill(ck, model, whole, resolved, sel.Description, first, n, o)
	}
	if err != nil {
		return nil, err
	}
	if job.export != nil {
		job.Findings = append(job.Findings, job.export.plan.Notes...)
	}
	if o.Checkpoint != demo.Label {
		if job.Abs, err = filepath.Abs(o.Checkpoint); err != nil {
			return nil, err
		}
		job.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(job.Abs), ".safetensors"), ".safetensors.index.json")
	}
	return job, nil
}

// fill makes a job of matrices in floating point, n of them from one on.
func (job *Job) fill(ck *checkpoint.Checkpoint, model *topology.Model, whole *storedSource, resolved []*resolvedRecipe, targets string, first, n int, o Options) error {
	switch {
	case o.Export == nil:
	case o.Export.Layout == "":
		return fmt.Errorf("an export of weights in floating point needs a layout: %w (known: %s)", export.ErrLayout, strings.Join(export.Layouts(), ", "))
	case o.Export.Layout == export.Source:
		return fmt.Errorf("layout %s of weights in floating point: %w (known: %s)", export.Source, export.ErrLayout, strings.Join(export.Layouts(), ", "))
	}
	src := whole.cut(first, n)
	job.Source, job.Tensors = src, src.tensors()
	job.Parse = func(name string) (Quantizer, error) { return job.parse(name, o) }
	for _, r := range resolved {
		q, err := r.quantizer(whole, first, n, o)
		if err != nil {
			return err
		}
		job.recipes = append(job.recipes, q)
	}
	job.calibrator = &jobCalibrator{o: o, targets: targets, matrices: whole.matrices}
	job.asksCalib = o.Calibration.asks()
	if o.globals() == export.Shared {
		job.shared = newSharing(o.KernelSet, whole, first)
	}
	var err error
	if o.Export != nil && len(o.asked()) > 0 {
		job.export, err = planMixed(ck, model, job, resolved, o)
	} else if o.Export != nil {
		job.export, err = planExport(ck, model, whole, first, o)
	}
	return err
}

// settingPattern is kept so that the same selection can be made again; it is
// not compared, the description is.
const settingPattern = "targets pattern"

// parseVariant makes a quantizer of a name.
func parseVariant(name string, o Options) (Quantizer, error) {
	v, err := o.variant(name)
	if err != nil {
		return Quantizer{}, err
	}
	if v.Calibrated() && (o.Part.Of > 0 || o.sample) {
		what := "a part of a checkpoint"
		if o.sample {
			what = "a sample of tensors"
		}
		return Quantizer{}, fmt.Errorf("sessions: variant %s cannot be made of %s: %w", v.Name, what, ErrPartCalibrated)
	}
	return Quantizer{
		Calibrated: v.Calibrated(), Codebook: v.NeedsMatrix(),
		Variant: Variant{
			Name: v.Name, Effective: v.Name, Scheme: v.Scheme, Convention: v.Spec.Convention.String(),
			BitsPerWeight: v.BitsPerWeight, Multipliers: v.Multipliers,
		},
		Spec: &v.Spec,
	}, nil
}

// sourceRowErrors opens the checkpoint that a session is of and measures one
// tensor of it, row by row. weights is the digest that it must have, folder that of a
// calibrated variant's codes.
func sourceRowErrors(ctx context.Context, session string, meta *metaJSON, settings map[string]string, followed []RecipeSource, tensor Tensor, variant Variant, folder string, weights digest) ([]float64, error) {
	ck, err := findSource(meta)
	if err != nil {
		return nil, fmt.Errorf("sessions: %s: its checkpoint was %s: %w", session, meta.place(), err)
	}
	job, err := newJob(ck, Options{
		Checkpoint: meta.SourcePath, Targets: settings[settingPattern], Recipes: followed, fp4: isFP4(tensor.DType), Compat: settingCompat(settings, variant), GlobalScale: settings[SettingGlobalScale],
	})
	if err != nil {
		return nil, errors.Join(err, ck.Close())
	}
	defer job.Source.Close()
	if was, is := settings[SettingNumerics], job.Settings[SettingNumerics]; was != is {
		return nil, fmt.Errorf("sessions: %s: rows cannot be measured again: %s was %s and is now %s", session, SettingNumerics, orNone(was), orNone(is))
	}
	i := slices.IndexFunc(job.Tensors, func(t Tensor) bool { return t.Name == tensor.Name })
	if i < 0 {
		return nil, fmt.Errorf("sessions: %s: tensor %q is not among the targets of %s any more", session, tensor.Name, ck.Path)
	}
	q, err := job.Parse(variant.Name)
	if err != nil {
		return nil, err
	}
	if q.keeps(i) {
		return nil, keptError(session, variant.Name, tensor.Name)
	}
	if q = q.at(i); q.Calibrated {
		return calibratedRows(ctx, job, session, folder, q, i, weights)
	}
	return rowErrors(ctx, job, q, i, weights)
}

// place is where the checkpoint was.
func (m *metaJSON) place() string {
	if m.SourceAbs != "" {
		return m.SourceAbs
	}
	return m.SourcePath
}

// findSource opens the checkpoint where it was, or where the path that the user
// gave leads now, if it is the same one.
func findSource(meta *metaJSON) (*checkpoint.Checkpoint, error) {
	paths := []string{meta.place()}
	if meta.SourcePath != paths[0] {
		paths = append(paths, meta.SourcePath)
	}
	var first error
	for _, p := range paths {
		ck, err := openCheckpoint(p)
		if err == nil {
			if id := ck.Identity().String(); id != meta.SourceIdentity {
				err = fmt.Errorf("another checkpoint is there now (identity %.12s, not %.12s)", id, meta.SourceIdentity)
				err = errors.Join(err, ck.Close())
			}
		}
		if err == nil {
			return ck, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"quantscope/analysis/candidate"
	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// PreparedMeasure is one that is ready to run, in a session that is there.
type PreparedMeasure struct {
	Path string // of the session
	Made bool   // it was made for this
	Feed Feed   // of the session; the scores arrive through it
	r    MeasureRequest
}

// PrepareMeasure opens everything that a measurement of r.Checkpoint reads, and
// then the session: that at path, which must be of the same checkpoint, or a new
// one, in the default place where path is "". Without an error nothing was
// computed, with one no session was made.
func PrepareMeasure(ctx context.Context, path string, r MeasureRequest) (m *PreparedMeasure, err error) {
	if r.KernelSet.Name == "" {
		r.KernelSet = kernels.Best()
	}
	exists := false
	if path != "" {
		if info, err := os.Lstat(path); err == nil && (info.Size() > 0 || !info.Mode().IsRegular()) {
			if ok, err := IsSession(path); err != nil {
				return nil, err
			} else if !ok {
				_, err := readHeader(path)
				return nil, err
			}
			exists = true
		}
	}
	m = &PreparedMeasure{Path: path, Made: !exists, r: r}
	identity := ""
	if exists {
		if m.Feed, err = OpenSession(path); err != nil {
			return nil, err
		}
		if s, ok := m.Feed.(*savedFeed); ok {
			if identity = s.meta.SourceIdentity; s.meta.served() {
				return nil, errors.Join(errServed(path), m.Close())
			}
		}
		if r.held, err = storedHeld(ctx, path); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	if m.r.ready, err = r.open(ctx, r.Checkpoint, identity); err == nil && !exists {
		m.Path, err = createMeasured(ctx, path, &r, m.r.ready.ref)
		if err == nil {
			m.Feed, err = OpenSession(m.Path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Run makes the measurement; see Measurer.
func (m *PreparedMeasure) Run(ctx context.Context) error {
	measurer, ok := m.Feed.(Measurer)
	if !ok {
		return fmt.Errorf("sessions: %s: takes no measurement", m.Path)
	}
	return measurer.Measure(ctx, m.r)
}

// Close closes what was opened.
func (m *PreparedMeasure) Close() error {
	var errs []error
	if m.r.ready != nil {
		errs = append(errs, m.r.ready.close())
	}
	if m.Feed != nil {
		errs = append(errs, m.Feed.Close())
	}
	return errors.Join(errs...)
}

// createMeasured makes a session of a reference, without variants, and says where.
func createMeasured(ctx context.Context, path string, r *MeasureRequest, ref *candidate.Candidate) (string, error) {
	job, err := measuredJob(r.Checkpoint, ref)
	if err != nil {
		return "", err
	}
	o := Options{Session: path, Threads: r.Threads, MemBytes: r.MemBytes, Program: r.Program, KernelSet: r.KernelSet}.withDefaults(job)
	s, err := openOrCreate(ctx, job, o, nil)
	if err != nil {
		return "", errors.Join(err, job.Source.Close())
	}
	path = s.file.path
	return path, errors.Join(s.file.close(), job.Source.Close())
}

// measuredJob is the job of a session that measurements of a reference go into. Of
// a checkpoint that can be quantized it is that of a run over it, so that one may
// go on with the session; of others it lists the matrices that the pass reads.
func measuredJob(path string, ref *candidate.Candidate) (*Job, error) {
	if ref.Kind == candidate.Checkpoint {
		ck, err := openCheckpoint(path)
		if err != nil {
			return nil, err
		}
		job, err := newJob(ck, Options{Checkpoint: path})
		if err == nil {
			return job, nil
		}
		if err := ck.Close(); err != nil {
			return nil, err
		}
	}
	const targets = "none: measured only"
	job := &Job{
		Meta: Meta{SourcePath: path, SourceIdentity: ref.Identity, SourceBytes: ref.Bytes, Targets: targets},
		Name: demo.Label, Source: noSource{},
		Settings: map[string]string{
			SettingSource: ref.Identity, SettingTargets: targets, SettingConvention: orDefault(""), SettingGlobalScale: "tensor", SettingNumerics: numerics,
		},
		Parse: func(name string) (Quantizer, error) {
			return Quantizer{}, fmt.Errorf("%s cannot be quantized, so variant %s cannot be measured tensor by tensor", path, name)
		},
	}
	if path != demo.Label {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		job.Abs = abs
		base := filepath.Base(abs)
		job.Name = strings.TrimSuffix(strings.TrimSuffix(base, ".safetensors"), ".gguf")
	}
	if t := ref.Topology; t != nil {
		job.Meta.Family, job.Meta.Summary = t.Family, t.Summary
		job.Meta.Layers, job.Meta.MTPLayers, job.Meta.Experts = t.Layers, t.MTPLayers, t.Experts
		job.Tensors = measuredTensors(t, filepath.Base(path))
	}
	return job, nil
}

// measuredTensors are the matrices of a model, for a session that quantizes none.
func measuredTensors(t *topology.Model, file string) []Tensor {
	var out []Tensor
	seen := map[string]bool{}
	for i := range t.Matrices {
		m := &t.Matrices[i]
		if seen[m.Name] || m.Rows <= 0 || m.Cols <= 0 || len(out) == maxTensors {
			continue
		}
		seen[m.Name] = true
		out = append(out, Tensor{ID: len(out), Name: m.Name, Source: m.Tensor, File: file, Rows: m.Rows, Cols: m.Cols, Role: m.Role})
	}
	return out
}

// noSource is the source of a job that reads no weights.
type noSource struct{}

func (noSource) Need(int) int { return 0 }
func (noSource) Read(context.Context, int, []byte) (kernels.Matrix, error) {
	return kernels.Matrix{}, errors.New("sessions: there is nothing to quantize")
}
func (noSource) Close() error { return nil }

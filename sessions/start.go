package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"quantscope/kernels"
)

// Start opens the checkpoint, creates the session or resumes it, and starts
// the run. The run ends with ctx, with Cancel or with Close.
//
// Errors: *BusyError where another process writes the session, *SettingsError
// where it cannot be resumed with these settings, *EnvError where the machine
// refuses to write it, *FileError where it is damaged, newer or no session; and
// those of quant/method, quant/recipe and quant/checkpoint.
func Start(ctx context.Context, o Options) (*LiveFeed, error) {
	if err := o.takeStored(ctx); err != nil {
		return nil, err
	}
	job, err := openJob(o)
	if err != nil {
		return nil, err
	}
	return StartJob(ctx, job, o)
}

// StartJob is Start for a job that is open already; of the options it uses
// Session, Variants, Recipes, Threads, MemBytes, Program, KernelSet and Clock. The feed
// closes the job's source, and so does an error.
func StartJob(ctx context.Context, job *Job, o Options) (l *LiveFeed, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, job.Source.Close())
		}
	}()
	o = o.withDefaults(job)
	names := slices.Clone(o.Variants)
	for _, r := range o.asked() {
		names = append(names, RecipePrefix+r.Name)
	}
	asked, err := parseVariants(job, names)
	if err != nil {
		return nil, err
	}
	s, err := openOrCreate(ctx, job, o, asked)
	if err != nil {
		return nil, err
	}
	if s.prepared, err = prepareCalibs(ctx, job, s, o.env()); err == nil {
		err = job.export.create(ctx)
	}
	if err != nil {
		for _, p := range s.prepared {
			err = errors.Join(err, p.close())
		}
		err = errors.Join(err, s.file.close())
		if !s.resumed { // it holds nothing
			removeSession(s.file.path)
		}
		return nil, err
	}
	return launch(ctx, job, o, s), nil
}

// defaultMem and two and a half times the largest tensor are what the buffers may
// hold where nothing is said: two workers have any tensor whole in memory, for
// which the pool rounds its size up by a quarter at most, and with what the program
// itself needs the process stays below 256 MiB and three such tensors.
const defaultMem = 96 << 20

// defaultCalibMem is what calibrating may take where nothing is said.
const defaultCalibMem = 2 << 30

// maxThreads is more workers than any machine has use for.
const maxThreads = 1024

func (o Options) withDefaults(job *Job) Options {
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	o.Threads = max(1, min(o.Threads, len(job.Tensors), maxThreads)) // more have nothing to do
	o.calibMem = cmp.Or(max(o.MemBytes, 0), defaultCalibMem)
	if o.MemBytes <= 0 {
		largest := 0
		for t := range job.Tensors {
			largest = max(largest, job.Source.Need(t))
		}
		o.MemBytes = defaultMem + 5*int64(largest)/2
	}
	if o.KernelSet.Name == "" {
		o.KernelSet = kernels.Best()
	}
	o.Clock = clockOr(o.Clock)
	return o
}

// env is what events say of this process.
func (o *Options) env() note {
	return note{Threads: o.Threads, MemBytes: o.MemBytes, Program: o.Program, KernelSet: o.KernelSet.Name}
}

// parseVariants makes quantizers of names, each once.
func parseVariants(job *Job, names []string) ([]Quantizer, error) {
	var out []Quantizer
	seen := map[string]bool{}
	for _, n := range names {
		q, err := job.Parse(n)
		if err != nil {
			return nil, err
		}
		if !seen[q.Variant.Name] {
			seen[q.Variant.Name] = true
			out = append(out, q)
		}
	}
	return out, nil
}

// opened is a session file that is ready for a run.
type opened struct {
	file     *file
	st       *State
	created  int64       // Unix ms
	variants []Quantizer // by ID, those of the session first
	events   []stored    // to be posted first: variants that are new to the session
	resumed  bool
	prepared map[string]preparedCalib // calibrated runs that are ready, by variant
}

// openOrCreate finds the session that the options name, or makes one.
func openOrCreate(ctx context.Context, job *Job, o Options, asked []Quantizer) (*opened, error) {
	if o.Session == "" {
		return createDefault(ctx, job, o, asked)
	}
	if info, err := os.Lstat(o.Session); err == nil && (info.Size() > 0 || !info.Mode().IsRegular()) {
		// A file that is no session, or a newer one, gets no lock file beside it.
		if ok, err := IsSession(o.Session); err != nil {
			return nil, err
		} else if !ok {
			_, err := readHeader(o.Session)
			return nil, err
		}
	}
	lock, err := lockSession(o.Session)
	if err != nil {
		return nil, err
	}
	switch info, err := os.Stat(o.Session); {
	case err == nil && info.Size() > 0:
		s, err := reopen(ctx, job, o, asked)
		if err != nil {
			return nil, errors.Join(err, lock.Release())
		}
		s.file, err = open(ctx, o.Session, lock)
		return s, err
	case err == nil: // an empty file, as mktemp makes it
		if err := os.Remove(o.Session); err != nil {
			return nil, errors.Join(envError(o.Session, "cannot be created", err), lock.Release())
		}
	}
	s, err := newSession(job, o, asked, o.Session)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	s.file, err = createAndOpen(ctx, o.Session, lock, s.events)
	s.events = nil
	return s, err
}

// newSession is a session that holds nothing yet. Its events are the first of
// the file.
func newSession(job *Job, o Options, asked []Quantizer, path string) (*opened, error) {
	now := o.Clock.Now()
	m := job.Meta
	meta := metaJSON{
		SourcePath: m.SourcePath, SourceAbs: job.Abs, SourceIdentity: m.SourceIdentity, Family: m.Family, Summary: m.Summary,
		Layers: m.Layers, MTPLayers: m.MTPLayers, Experts: m.Experts, SourceBytes: m.SourceBytes, Targets: m.Targets,
		Program: o.Program, KernelSet: o.KernelSet.Name, CreatedUnixMS: now.UnixMilli(), Tensors: len(job.Tensors),
		Part: job.part,
	}
	chunks, err := encodeTensors(job.Tensors)
	if err != nil {
		return nil, err
	}
	s := &opened{created: meta.CreatedUnixMS, variants: asked}
	s.events = append(s.events, newNote(EventCreated, -1, -1, note{
		Message: fmt.Sprintf("%s: %s, %s", m.SourcePath, count(int64(len(job.Tensors)), "tensor"), m.Targets),
		Meta:    &meta, Settings: job.Settings,
	}))
	for _, f := range job.Findings {
		s.events = append(s.events, newNote(EventFinding, -1, -1, note{Message: f, Code: "checkpoint"}))
	}
	for _, c := range chunks {
		s.events = append(s.events, stored{Event: Event{Kind: EventTensors, Variant: -1, Tensor: -1}, payload: c})
	}
	s.st = &State{Meta: meta.meta(path), Tensors: job.Tensors, Progress: Progress{State: RunIdle, Variant: -1}}
	for id, q := range asked {
		added, err := addedEvents(id, q)
		if err != nil {
			return nil, err
		}
		s.events = append(s.events, added...)
		if q.recipe != nil {
			s.st.Recipes = append(s.st.Recipes, q.recipe.as(id))
		}
		q.Variant.ID = id
		s.st.Variants = append(s.st.Variants, q.Variant)
		s.st.Records = append(s.st.Records, make([]Record, len(job.Tensors)))
	}
	for i := range s.events {
		e := &s.events[i]
		e.Seq = int64(i + 1)
		if e.Kind != EventTensors {
			s.st.Log = append(s.st.Log, e.Event)
		}
		s.st.LastSeq = e.Seq
	}
	s.st.count()
	return s, nil
}

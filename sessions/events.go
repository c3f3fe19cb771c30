package sessions

import (
	"encoding/json"
	"fmt"

	"quantscope/analysis/yardstick"
	"quantscope/kernels"
)

// EventTensors carries the session's tensors, in order of ID, in one or more
// events. It is part of the file, and neither in State.Log nor in a Batch.
const EventTensors EventKind = "tensors"

// stored is one event with what its payload holds.
type stored struct {
	Event
	payload []byte
	rec     Record  // of tap and failed events
	variant Variant // of variant events
	note    note    // of all but tap, tensors and score events, and those about gates, biases and tiers

	// Of yard, score and yardend events: which measurement, as the file numbers
	// them, and the index in State.Yards once yardBook.place has been asked.
	yard  int
	setup *yardstick.Setup
	chunk *yardstick.Chunk
	end   *YardEnd

	// Of calib, unit and calibend events: which calibration, as the file numbers
	// them, and the index in State.Calibrations once calibBook.place has been asked.
	calib      int
	calibSetup *CalibrationSetup
	unit       *CalibUnit
	calibEnd   *CalibrateEnd

	recipe *RecipeRun // of plan events

	// Of events about gates: which run, as the file numbers them, and the index in
	// State.Gates once gateBook.place has been asked.
	gateRun int
	gate    *gateJSON

	// Of events about biases and about hot tiers, likewise.
	biasRun int
	bias    *biasJSON
	tierRun int
	tier    *tierJSON
}

// ofTensor says whether the event is about one tensor. Of such there may be very
// many.
func (e *stored) ofTensor() bool {
	switch e.Kind {
	case EventTap, EventFailed, EventFallback, EventFinding:
		return true
	}
	return false
}

// bulk says whether there may be many such events, which are committed in batches
// and are no lines of the log.
func (e *stored) bulk() bool {
	return e.ofTensor() || e.unlogged()
}

// unlogged says whether an event of a run (a score, an answer, a window …) is one of
// very many, and so neither a line of the log nor in a Batch's events.
func (e *stored) unlogged() bool {
	switch e.Kind {
	case EventScore, EventAnswer, EventBiasFound, EventWindow, EventMoves:
		return true
	}
	return false
}

// unloggedKinds are the kinds of such events as SQL lists them.
const unloggedKinds = "'score', 'answer', 'biasrow', 'window', 'moves'"

// note is the JSON payload of every event but tap, tensors and score, and those
// about gates, biases and tiers. Each kind uses the fields that docs/session.md lists
// for it.
type note struct {
	Message string `json:"message"`

	Meta     *metaJSON         `json:"meta,omitempty"`     // created
	Settings map[string]string `json:"settings,omitempty"` // created
	Variant  *variantJSON      `json:"variant,omitempty"`  // variant

	Variants  []string `json:"variants,omitempty"` // started, resumed: names
	Pending   int64    `json:"pending,omitempty"`  // started, resumed: measurements to do
	Retry     int64    `json:"retry,omitempty"`    // resumed: of these, failed before
	Threads   int      `json:"threads,omitempty"`
	MemBytes  int64    `json:"mem_bytes,omitempty"`
	Program   string   `json:"program,omitempty"`
	KernelSet string   `json:"kernel_set,omitempty"`

	Pace *paceJSON `json:"pace,omitempty"` // finished, cancelled, stopped: what the run measured of itself

	Export *exportJSON `json:"export,omitempty"` // finished, cancelled, stopped: what became of the export

	Audit *Audit `json:"audit,omitempty"` // audit

	Yard    *yardJSON    `json:"yard,omitempty"`     // yard
	YardEnd *yardEndJSON `json:"yard_end,omitempty"` // yardend

	Calib    *calibJSON    `json:"calib,omitempty"`     // calib
	Unit     *unitJSON     `json:"unit,omitempty"`      // unit
	CalibEnd *calibEndJSON `json:"calib_end,omitempty"` // calibend

	Plan *planJSON `json:"plan,omitempty"` // plan

	NaN int64 `json:"nan,omitempty"` // failed: weights that are not finite
	Inf int64 `json:"inf,omitempty"`

	Requested string `json:"requested,omitempty"` // fallback
	Effective string `json:"effective,omitempty"`
	Why       string `json:"why,omitempty"` // fallback; absent in older files, where the message ends in it

	Code  string  `json:"code,omitempty"`  // finding
	Value *Figure `json:"value,omitempty"` // finding: what was found
	Bound *Figure `json:"bound,omitempty"` // finding: what it should not exceed
}

// paceJSON is how fast a run was, and what it made of that.
type paceJSON struct {
	ReadBytesPerSec float64            `json:"read_bytes_per_sec"`   // of the source, while it was read
	Kernels         map[string]float64 `json:"kernel_bytes_per_sec"` // of one thread, by variant
	Workers         int                `json:"workers"`              // that the kernels keep busy
	Ahead           int                `json:"ahead"`                // tensors, or batches of small ones, read meanwhile
}

// exportJSON is what a run wrote besides the session.
type exportJSON struct {
	Dir    string `json:"dir"`
	Abs    string `json:"dir_abs,omitempty"` // where dir was, for a relative one; absent in older files
	Layout string `json:"layout"`
	State  string `json:"state"`
	Files  int    `json:"files,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
}

type metaJSON struct {
	SourcePath     string    `json:"source_path"`
	SourceAbs      string    `json:"source_abs,omitempty"` // where source_path was, for a relative one
	SourceIdentity string    `json:"source_identity"`
	Family         string    `json:"family"`
	Summary        string    `json:"summary"`
	Layers         int       `json:"layers"`
	MTPLayers      int       `json:"mtp_layers"`
	Experts        int       `json:"experts"`
	SourceBytes    int64     `json:"source_bytes"`
	Targets        string    `json:"targets"`
	Program        string    `json:"program"`
	KernelSet      string    `json:"kernel_set"`
	CreatedUnixMS  int64     `json:"created_unix_ms"`
	Tensors        int       `json:"tensors"`        // how many
	Part           *partJSON `json:"part,omitempty"` // of what is not the whole
}

func (m *metaJSON) meta(path string) Meta {
	var part Part
	if m.Part != nil {
		part = Part{m.Part.K, m.Part.Of}
	}
	return Meta{
		Part: part,
		Path: path, SourcePath: m.SourcePath, SourceIdentity: m.SourceIdentity, Family: m.Family, Summary: m.Summary,
		Layers: m.Layers, MTPLayers: m.MTPLayers, Experts: m.Experts, SourceBytes: m.SourceBytes,
		Targets: m.Targets, Program: m.Program, KernelSet: m.KernelSet, CreatedUnixMS: m.CreatedUnixMS,
	}
}

type variantJSON struct {
	Name          string   `json:"name"`
	Effective     string   `json:"effective"`
	Scheme        string   `json:"scheme"`
	Convention    string   `json:"convention,omitempty"` // absent in older files: modelopt
	BitsPerWeight float64  `json:"bits_per_weight"`
	Multipliers   []string `json:"multipliers,omitempty"`
}

// newVariantJSON is a variant as the file has it.
func newVariantJSON(v Variant) variantJSON {
	return variantJSON{Name: v.Name, Effective: v.Effective, Scheme: v.Scheme, Convention: v.Convention, BitsPerWeight: v.BitsPerWeight, Multipliers: v.Multipliers}
}

func (v *variantJSON) variant(id int) Variant {
	return Variant{ID: id, Name: v.Name, Effective: v.Effective, Scheme: v.Scheme, Convention: v.Convention, BitsPerWeight: v.BitsPerWeight, Multipliers: v.Multipliers}
}

// decodeEvent fills in what the payload of e holds. rec and variant get the
// numbers of the event.
func decodeEvent(e *stored) error {
	switch e.Kind {
	case EventTap:
		var t kernels.Tap
		weights, _, err := decodeTapHead(e.payload, &t)
		if err != nil {
			return err
		}
		e.rec = NewRecord(e.Variant, e.Tensor, &t)
		e.rec.Seq, e.rec.AtUS = e.Seq, e.AtUS
		e.rec.setDigest(weights)
		return nil
	case EventTensors:
		return nil
	case EventScore:
		var err error
		e.yard, e.chunk, err = decodeScore(e.payload)
		return err
	case EventGates, EventArm, EventAnswer, EventMeter, EventGatesEnd:
		return decodeGate(e)
	case EventBias, EventBiasFound, EventBiasEnd:
		return decodeBias(e)
	case EventTier, EventWindow, EventMoves, EventTierEnd:
		return decodeTier(e)
	}
	if err := json.Unmarshal(e.payload, &e.note); err != nil {
		return err
	}
	e.Message, e.Effective, e.Requested, e.Why = e.note.Message, e.note.Effective, e.note.Requested, e.note.Why
	switch e.Kind {
	case EventVariant:
		if e.note.Variant == nil {
			return fmt.Errorf("a variant event holds no variant")
		}
		e.variant = e.note.Variant.variant(e.Variant)
	case EventPlan:
		var err error
		if e.recipe, err = e.note.Plan.run(e.Variant); err != nil {
			return err
		}
		e.note.Plan = nil
	case EventAudit:
		if e.note.Audit == nil || e.note.Audit.Census == nil {
			return fmt.Errorf("an audit event holds no census")
		}
	case EventYard:
		var err error
		if e.setup, err = e.note.Yard.setup(); err != nil {
			return err
		}
		e.yard, e.note.Yard = e.note.Yard.ID, nil // the setup has it all
	case EventYardEnd:
		var err error
		if e.end, err = e.note.YardEnd.end(); err != nil {
			return err
		}
		e.yard = e.note.YardEnd.ID
	case EventCalib, EventUnit, EventCalibEnd:
		return decodeCalib(e)
	case EventFailed:
		e.rec = failedRecord(e.Variant, e.Tensor, e.note.NaN+e.note.Inf)
		e.rec.Seq, e.rec.AtUS = e.Seq, e.AtUS
	}
	return nil
}

package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quantscope/analysis/census"
	"quantscope/analysis/lint"
)

// Audit is a look at the scales of a checkpoint: what a server that fuses
// matrices does to them, and the defects that its headers and scales show.
type Audit struct {
	Path     string         `json:"path"`             // of the checkpoint, absolute; "demo" for the embedded one
	Master   string         `json:"master,omitempty"` // whose weights the proof compares with; "" where there is none
	AtUnixMS int64          `json:"at_unix_ms"`
	Census   *census.Report `json:"census"`
	Findings []lint.Finding `json:"findings"`
}

// ExportRef is a checkpoint that a run wrote.
type ExportRef struct {
	Dir    string // as the user gave it
	Abs    string // where that was; "" where Dir says it, or it is not known
	Layout string
	State  ExportState
}

// Place is where the export is to be found.
func (e ExportRef) Place() string {
	if e.Abs != "" {
		return e.Abs
	}
	return e.Dir
}

func (x *exportJSON) ref() ExportRef {
	return ExportRef{Dir: x.Dir, Abs: x.Abs, Layout: x.Layout, State: ExportState(x.State)}
}

// AuditRequest says what an audit looks at.
type AuditRequest struct {
	Dir      string              // "" for the session's own checkpoint
	Prove    bool                // decode what differs as a server does and compare with the master
	Master   string              // "" for the session's own checkpoint
	Progress func(AuditProgress) // may be nil; called from any goroutine, one at a time for each step
}

// AuditProgress is how far an audit is.
type AuditProgress struct {
	Step        AuditStep
	Done, Total int64 // of the step; both 0 where that is not counted
}

// AuditStep is one step of an audit.
type AuditStep string

// Steps of an audit, in order.
const (
	AuditCensus AuditStep = "reading second-level scales"
	AuditLint   AuditStep = "checking headers and scales"
	AuditProof  AuditStep = "comparing with the master"
)

// Auditor is a feed that can look at the scales of a checkpoint. Audit reads
// files and may be called from any goroutine; ctx ends it. Where the session's
// own checkpoint is wanted and not to be had, the error says where it was.
type Auditor interface {
	Audit(ctx context.Context, r AuditRequest) (*Audit, error)
}

// event is the audit as an event, without its numbers.
func (a *Audit) event() (stored, error) {
	if _, err := json.Marshal(a); err != nil {
		return stored{}, fmt.Errorf("sessions: the audit of %s cannot be recorded: %w", a.Path, err)
	}
	return newNote(EventAudit, -1, -1, note{Message: a.message(), Audit: a}), nil
}

// message is the audit in a line of the log.
func (a *Audit) message() string {
	c := a.Census
	text := fmt.Sprintf("audit of %s: %d of %s differ", a.Path, c.Differing, count(int64(c.Pairs), "pair"))
	switch {
	case c.Pairs == 0 && c.Note != "":
		text = fmt.Sprintf("audit of %s: %s", a.Path, c.Note)
	case c.Differing > 0:
		text += fmt.Sprintf(", by %.6g to %.6g", c.RatioMin, c.RatioMax)
	}
	if n := len(a.Findings); n > 0 {
		text += ", " + count(int64(n), "finding")
	}
	return oneLine(text)
}

// RecordAudit appends an audit to a session that nobody writes. Errors are
// *FileError, *BusyError and *EnvError.
func RecordAudit(path string, a Audit) (err error) {
	if a.Census == nil {
		return fmt.Errorf("sessions: an audit without a census cannot be recorded")
	}
	if a.AtUnixMS == 0 {
		a.AtUnixMS = time.Now().UnixMilli()
	}
	e, err := a.event()
	if err != nil {
		return err
	}
	if _, err := readHeader(path); err != nil {
		return err
	}
	ctx := context.Background()
	lock, err := lockSession(path)
	if err != nil {
		return err
	}
	l, err := loadFile(ctx, path)
	if err == nil && l.damage.any() {
		err = &FileError{Path: path, Reason: "is damaged and can be looked at, not written to: " + l.damage.String(), Err: ErrDamaged}
	}
	if err != nil {
		return errors.Join(err, lock.Release())
	}
	f, err := open(ctx, path, lock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.conn.QueryRowContext(ctx, "select max(seq) + 1, max(at_us) from events").Scan(&e.Seq, &e.AtUS); err != nil {
		return &FileError{path, "read", err}
	}
	e.AtUS = max(e.AtUS, time.Now().UnixMicro()-l.meta.CreatedUnixMS*1000)
	return f.append(ctx, []stored{e})
}

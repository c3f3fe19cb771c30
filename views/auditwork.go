package views

import "quantscope/sessions"

// AuditSubject is a checkpoint whose scales can be looked at, and what is known
// of them.
type AuditSubject struct {
	Dir    string // "" for the session's own checkpoint
	Master string // that a proof compares with; "" for the session's own checkpoint
	What   string // the session's checkpoint, export, recorded, folder
	Path   string // how it is called on the screen
	Audit  *sessions.Audit
	Err    string // why there is none
}

// AuditWork is what the root and the Audit screen share: the root finds the
// subjects and does the work, the screen shows one of them and asks for more.
type AuditWork struct {
	Subjects []AuditSubject
	At       int    // the subject that is shown
	Off      string // why nothing can be audited here; "" where it can
	Running  bool
	Proving  bool // of what runs
	Progress sessions.AuditProgress
	Ask      AuditAsk // taken by the root
}

// AuditAsk is what the person wants of the root.
type AuditAsk uint8

// What can be asked for.
const (
	AskNothing AuditAsk = iota
	AskFolder           // name another checkpoint
	AskAgain            // audit anew
	AskProof            // compare with the master
	AskStop             // end what runs
	AskMap              // show the tensor under the cursor on the map
)

// Shown is the subject that is shown, nil where there is none.
func (w *AuditWork) Shown() *AuditSubject {
	if w.At < 0 || w.At >= len(w.Subjects) {
		return nil
	}
	return &w.Subjects[w.At]
}

// ask wants something of the root.
func (s *Scene) ask(a AuditAsk) {
	s.Audits.Ask = a
	s.Touch()
}

// showAudit shows another subject.
func (s *Scene) showAudit(at int) {
	if at != s.Audits.At && at >= 0 && at < len(s.Audits.Subjects) {
		s.Audits.At = at
		s.Touch()
	}
}

// What a subject is.
const (
	AuditOwn      = "source"
	AuditExport   = "export"
	AuditRecorded = "recorded"
	AuditFolder   = "folder"
)

// proofOff is why a subject cannot be compared with a master; "" where it can.
func (w *AuditWork) proofOff() string {
	s := w.Shown()
	switch {
	case w.Off != "":
		return w.Off
	case s == nil || s.Audit == nil:
		return "there is no census yet"
	case w.Running:
		return "an audit is under way: esc stops it"
	case s.Audit.Census.Pairs == 0:
		return "there is nothing to prove: no second-level scales are compared"
	case s.Audit.Census.Differing == 0:
		return "there is nothing to prove: all scales are equal, so a server changes nothing"
	case s.Dir == "" && s.Master == "":
		return "the session's own checkpoint is what a proof compares with: o names a checkpoint and its master"
	}
	return ""
}

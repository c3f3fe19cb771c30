package tui

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/quant/demo"
	"quantscope/sessions"
	"quantscope/views"
)

// auditing is what the Audit screen knows of a source and what is under way for
// it: one audit at a time, which ends when its source or its subject is left.
type auditing struct {
	src             *source
	exports, audits int  // of the source's state, taken in
	chosen          bool // the person named or chose what is shown
	at              int  // subject that was shown last
	gen             uint64
	stop            context.CancelFunc // nil where nothing runs
	progress        *atomic.Pointer[sessions.AuditProgress]
	ticking         bool
}

// auditedMsg ends an audit.
type auditedMsg struct {
	gen   uint64
	at    int // subject
	audit *sessions.Audit
	err   error
}

func (a auditedMsg) apply(m *Model) tea.Cmd { return m.audited(a) }

// auditTickMsg asks to look how far an audit is.
type auditTickMsg struct{}

func (auditTickMsg) apply(m *Model) tea.Cmd {
	m.audit.ticking = false
	return m.auditTick()
}

// fetchAudit finds the checkpoints that the source knows of, does what the
// person asked for on the screen, and looks at the subject that is shown where
// nothing is known of it yet.
func (m *Model) fetchAudit() tea.Cmd {
	a, w := &m.audit, &m.scene.Audits
	if a.src != m.src {
		m.stopAudit()
		*a = auditing{src: m.src, gen: a.gen}
		*w = views.AuditWork{}
		if _, ok := m.src.feed.(sessions.Auditor); !ok {
			w.Off = "checkpoints cannot be audited from here"
		}
	}
	if m.screen != ScreenAudit || m.first != nil {
		return nil
	}
	m.findAudits()
	ask := w.Ask
	w.Ask = views.AskNothing
	if a.at != w.At { // the person went on to another
		m.stopAudit()
		a.at, a.chosen = w.At, true
	}
	s := w.Shown()
	switch {
	case ask == views.AskMap:
		m.toMap()
	case w.Off != "":
	case ask == views.AskFolder:
		m.open(newAuditForm(m.scene.State.Meta.SourcePath))
	case ask == views.AskStop:
		m.stopAudit()
		if s != nil && s.Audit == nil {
			s.Err = "stopped"
		}
	case s == nil || w.Running:
	case ask == views.AskProof:
		return m.startAudit(true)
	case ask == views.AskAgain, s.Audit == nil && s.Err == "":
		return m.startAudit(false)
	}
	return nil
}

// toMap shows the tensor under the cursor on the map, from where esc leads back.
// What would hide it there is put aside.
func (m *Model) toMap() {
	sc := m.scene
	if sc.Cursor >= 0 && !sc.Shown(sc.Cursor) {
		sc.SetProjection("")
		if !sc.Shown(sc.Cursor) {
			m.clearFilter()
		}
	}
	m.drill(ScreenMap)
	if sc.Cursor >= 0 && sc.Cursor < len(sc.State.Tensors) && m.note.text == "" {
		m.say("%s: esc leads back to the audit", views.ShortName(&sc.State.Tensors[sc.Cursor]))
	}
}

// findAudits takes in the exports and audits of the state: an audit belongs to
// the subject of its path. The newest export is shown unless the person chose.
func (m *Model) findAudits() {
	a, w, st := &m.audit, &m.scene.Audits, m.scene.State
	if len(w.Subjects) == 0 {
		w.Subjects = []views.AuditSubject{{What: views.AuditOwn, Path: st.Meta.SourcePath}}
		m.scene.Touch()
	}
	if len(st.Exports) < a.exports || len(st.Audits) < a.audits { // a replay went backwards
		a.exports, a.audits = 0, 0
		kept := w.Subjects[:0]
		for _, s := range w.Subjects {
			if s.What == views.AuditOwn || s.What == views.AuditFolder {
				kept = append(kept, s)
			}
		}
		m.stopAudit()
		w.Subjects, w.At, a.at = kept, 0, 0
		m.scene.Touch()
	}
	show := -1
	for _, x := range st.Exports[a.exports:] {
		if x.State == sessions.ExportWhole {
			show = m.subject(views.AuditSubject{Dir: x.Place(), What: views.AuditExport, Path: x.Dir})
		}
	}
	for _, x := range st.Audits[a.audits:] {
		at := m.subject(views.AuditSubject{Dir: x.Path, What: views.AuditRecorded, Path: x.Path})
		if at != w.At || !w.Running {
			s := &w.Subjects[at]
			if s.Audit == nil || x.AtUnixMS >= s.Audit.AtUnixMS && !(s.Audit.Master != "" && x.Master == "") {
				s.Audit, s.Err = x, ""
				m.scene.Touch()
			}
		}
		if show < 0 && x.Census.Pairs > 0 {
			show = at
		}
	}
	a.exports, a.audits = len(st.Exports), len(st.Audits)
	if show >= 0 && !a.chosen && show != w.At {
		m.stopAudit()
		w.At, a.at = show, show
		m.scene.Touch()
	}
}

// subject is where a subject stands, which is added where it is new.
func (m *Model) subject(s views.AuditSubject) int {
	w := &m.scene.Audits
	for i := range w.Subjects {
		known := &w.Subjects[i]
		switch {
		case known.Dir == s.Dir,
			known.Audit != nil && known.Audit.Path == s.Dir,
			known.What == views.AuditOwn && s.Dir == absolute(m.scene.State.Meta.SourcePath):
			return i
		}
	}
	w.Subjects = append(w.Subjects, s)
	m.scene.Touch()
	return len(w.Subjects) - 1
}

// auditFolder shows a checkpoint that the person named; master is what a proof
// compares it with, "" the session's own checkpoint.
func (m *Model) auditFolder(dir, master string) {
	w := &m.scene.Audits
	at := m.subject(views.AuditSubject{Dir: absolute(dir), What: views.AuditFolder, Path: dir})
	s := &w.Subjects[at]
	if s.Master != master {
		s.Master, s.Audit = master, nil
	}
	s.Err = ""
	m.stopAudit()
	w.At, m.audit.at, m.audit.chosen = at, at, true
	m.scene.Touch()
}

// absolute is a path that means the same from any folder; demo is none.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil && path != demo.Label {
		return abs
	}
	return path
}

// startAudit looks at the subject that is shown, outside the loop.
func (m *Model) startAudit(prove bool) tea.Cmd {
	a, w := &m.audit, &m.scene.Audits
	s := w.Shown()
	auditor := m.src.feed.(sessions.Auditor) // else nothing is asked for
	ctx, stop := context.WithCancel(m.src.ctx)
	progress := &atomic.Pointer[sessions.AuditProgress]{}
	a.gen++
	a.stop, a.progress = stop, progress
	w.Running, w.Proving, w.Progress = true, prove, sessions.AuditProgress{}
	s.Err = ""
	m.scene.Touch()
	gen, at := a.gen, w.At
	r := sessions.AuditRequest{Dir: s.Dir, Prove: prove, Master: s.Master, Progress: func(p sessions.AuditProgress) { progress.Store(&p) }}
	return tea.Batch(m.do(ctx, "audit", func(ctx context.Context) tea.Msg {
		audit, err := auditor.Audit(ctx, r)
		return auditedMsg{gen, at, audit, err}
	}), m.auditTick())
}

// stopAudit ends what runs; its answer will be of no interest.
func (m *Model) stopAudit() {
	a, w := &m.audit, &m.scene.Audits
	if a.stop == nil {
		return
	}
	a.stop()
	a.stop = nil
	a.gen++
	w.Running, w.Proving = false, false
	m.scene.Touch()
}

// audited shows an audit unless the person has gone on to something else.
func (m *Model) audited(msg auditedMsg) tea.Cmd {
	a, w := &m.audit, &m.scene.Audits
	if msg.gen != a.gen || a.stop == nil {
		return nil
	}
	m.stopAudit()
	if msg.at >= len(w.Subjects) {
		return nil
	}
	s := &w.Subjects[msg.at]
	switch {
	case errors.Is(msg.err, context.Canceled):
	case msg.err != nil:
		s.Err = msg.err.Error()
	default:
		s.Audit, s.Err = msg.audit, ""
	}
	m.scene.Touch()
	return nil
}

// auditTick looks how far an audit is and again after a while. One is in flight.
func (m *Model) auditTick() tea.Cmd {
	a, w := &m.audit, &m.scene.Audits
	if a.ticking || !w.Running || m.o.handFed {
		return nil
	}
	if p := a.progress.Load(); p != nil && *p != w.Progress {
		w.Progress = *p
		m.scene.Touch()
	}
	a.ticking = true
	return m.do(m.src.ctx, "audit", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(tickEvery)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return auditTickMsg{}
	})
}

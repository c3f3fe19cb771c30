package tui

import (
	"context"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/kernels"
	"quantscope/views"
)

// detailWant names a detail: a tensor of a source, with the records that it had
// when it was asked for. A newer record makes another want.
type detailWant struct {
	src    *source
	tensor int
	seqs   int64 // sum over variants of the records' sequence numbers
}

func (m *Model) wanted() detailWant {
	w := detailWant{src: m.src, tensor: m.scene.Cursor}
	for v := range m.scene.State.Variants {
		if r, ok := m.scene.Record(v, w.tensor); ok {
			w.seqs += r.Seq
		}
	}
	return w
}

// fetchDetail asks for the whole tap records of the tensor under the cursor,
// one request at a time: while the cursor runs, only the tensor where it stands
// when an answer comes in is asked for next.
func (m *Model) fetchDetail() tea.Cmd {
	w := m.wanted()
	if w == m.asked {
		return nil
	}
	if d := m.scene.Detail; d != nil && (w.src != m.asked.src || d.Tensor != w.tensor) {
		m.scene.Detail = nil
		m.scene.Touch()
	}
	m.fetchGen++ // an answer under way is of something else
	if m.fetching || w.tensor < 0 {
		return nil
	}
	m.asked, m.fetching = w, true
	gen, feed := m.fetchGen, m.src.feed
	n := len(m.scene.State.Variants)
	measured := make([]bool, n)
	for v := range n {
		r, ok := m.scene.Record(v, w.tensor)
		measured[v] = ok && !r.Failed
	}
	return m.do(m.src.ctx, "detail", func(ctx context.Context) tea.Msg {
		d := &views.Detail{Tensor: w.tensor, Taps: make([]*kernels.Tap, n), Errs: make([]string, n)}
		for v := range n {
			if !measured[v] {
				continue
			}
			tap, err := feed.Detail(ctx, v, w.tensor)
			if err != nil {
				d.Errs[v] = err.Error()
				continue
			}
			d.Taps[v] = &tap
		}
		return detailMsg{gen: gen, detail: d}
	})
}

// gotDetail shows a detail unless the cursor has moved on.
func (m *Model) gotDetail(msg detailMsg) tea.Cmd {
	m.fetching = false
	if msg.gen != m.fetchGen {
		m.asked = detailWant{tensor: -2} // so that settle asks for what is wanted now
		return nil
	}
	if old := m.scene.Detail; old != nil && old.Tensor == msg.detail.Tensor {
		msg.detail.Rows, msg.detail.RowErr = old.Rows, old.RowErr
	}
	m.scene.Detail = msg.detail
	m.scene.Touch()
	return nil
}

// fetchRows asks for the errors of each row, which cost another pass over the
// tensor's weights, when the tensor screen shows them. Moving on cancels it.
func (m *Model) fetchRows() tea.Cmd {
	d := m.scene.Detail
	if m.screen != ScreenTensor || d == nil {
		if m.rowsStop != nil {
			m.rowsStop()
			m.rowsStop = nil
			m.rowsGen++
		}
		return nil
	}
	if m.rowsStop != nil || d.RowErr != "" {
		return nil
	}
	var missing []int
	for v := range d.Taps {
		if d.Taps[v] != nil && (v >= len(d.Rows) || d.Rows[v] == nil) {
			missing = append(missing, v)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	ctx, stop := context.WithCancel(m.src.ctx)
	m.rowsStop = stop
	m.rowsGen++
	gen, feed, tensor := m.rowsGen, m.src.feed, d.Tensor
	return m.do(ctx, "row errors", func(ctx context.Context) tea.Msg {
		msg := rowsMsg{gen: gen, tensor: tensor, rows: map[int][]float64{}}
		for _, v := range missing {
			rows, err := feed.RowErrors(ctx, v, tensor)
			if err != nil {
				msg.err = err
				break
			}
			msg.rows[v] = rows
		}
		return msg
	})
}

// gotRows adds the errors of rows to the detail, as a new one: panes tell
// details apart by their address.
func (m *Model) gotRows(msg rowsMsg) tea.Cmd {
	if msg.gen != m.rowsGen {
		return nil
	}
	m.rowsStop()
	m.rowsStop = nil
	old := m.scene.Detail
	if old == nil || old.Tensor != msg.tensor {
		return nil
	}
	d := *old
	d.Rows = slices.Clone(old.Rows)
	for len(d.Rows) < len(d.Taps) {
		d.Rows = append(d.Rows, nil)
	}
	for v, rows := range msg.rows {
		d.Rows[v] = rows
		if d.Rows[v] == nil {
			d.Rows[v] = []float64{}
		}
	}
	if msg.err != nil {
		d.RowErr = msg.err.Error()
	}
	m.scene.Detail = &d
	m.scene.Touch()
	return nil
}

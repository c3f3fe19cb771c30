package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/sessions"
	"quantscope/views"
)

// pickVariant lists the variants of the session and, by kind of format, those
// that could be added. What is typed searches. enter shows the one under the
// cursor; marked ones are added to the run.
func (m *Model) pickVariant() tea.Cmd {
	sc := m.scene
	off := m.offAdd()
	var items []item
	for _, v := range sc.State.Variants {
		it := item{name: v.Name, group: "in this session", tag: v.ID, on: v.ID == sc.Variant, note: m.sized(v), help: m.measured(v)}
		items = append(items, it)
	}
	for _, kind := range formatKinds {
		for _, k := range m.o.Known {
			if f, name := formatOfVariant(k.Name); name == kind.name && sc.State.VariantByName(k.Name) < 0 {
				note := k.Help
				if f.Bits > 0 {
					note = bitsText(f.BitsPerWeight()) + "  " + note
				}
				it := item{name: k.Name, group: kind.heading, note: note, help: k.Help, tag: -1, box: true, off: off}
				if k.Calibrated && off == "" {
					it.off = m.offCalibrated()
				}
				items = append(items, it)
			}
		}
	}
	p := newPicker("Variants", "type to find · enter show or add · space mark · esc close", items)
	line := newLineEdit("")
	p.search, p.notes, p.typed = &line, true, m.composed
	p.accept = (*Model).acceptVariants
	m.open(p)
	return nil
}

// composed is a variant that no row names and that text does: methods compose in
// more ways than are listed.
func (m *Model) composed(text string) (item, bool) {
	v, err := method.Parse(strings.TrimSpace(text))
	if err != nil || m.scene.State.VariantByName(v.Name) >= 0 {
		return item{}, false
	}
	it := item{name: v.Name, group: "as typed", tag: -1, box: true, off: m.offAdd()}
	if over, _, ok := strings.Cut(v.Name, "+gptq"); ok {
		it.help = "GPTQ over the parameters that " + over + " chooses"
	}
	if v.NamesBook() && it.help == "" {
		it.help = "two bits: the four values that the name has, in every matrix"
	}
	it.note = it.help
	if f, _ := formatOfVariant(v.Name); f.Bits > 0 {
		it.note = bitsText(f.BitsPerWeight()) + "  " + it.note
	}
	if v.Calibrated() && it.off == "" {
		it.off = m.offCalibrated()
	}
	return it, true
}

// formatKinds are the headings under which variants are offered, in order.
var formatKinds = []struct{ name, heading string }{
	{"nvfp4", "NVFP4: blocks of 16 with E4M3 scales"},
	{"mxfp4", "MXFP4: blocks of 32 with power-of-two scales"},
	{"fp8", "FP8: E4M3 with f32 scales"},
	{"int4", "int4: groups or rows with bf16 scales"},
	{"code2", "code2: two bits, four of the FP4 values a tensor"},
	{"", "others"},
}

// formatOfVariant is the format that a variant's name begins with, and the kind
// that it is listed under.
func formatOfVariant(name string) (f kernels.Format, kind string) {
	scheme, _, _ := strings.Cut(name, "+")
	f, err := kernels.FormatByName(scheme)
	if err != nil {
		return kernels.Format{}, ""
	}
	for _, k := range formatKinds {
		if k.name != "" && strings.HasPrefix(scheme, k.name) {
			return f, k.name
		}
	}
	return f, ""
}

// bitsText is a size in bits a weight, right-aligned in a column.
func bitsText(bits float64) string { return fmt.Sprintf("%5.4g bits", bits) }

// measured says how far a variant is.
func (m *Model) measured(v sessions.Variant) string {
	n := 0
	for i := range m.scene.State.Records[v.ID] {
		if m.scene.State.Records[v.ID][i].Seq != 0 {
			n++
		}
	}
	note := fmt.Sprintf("%d/%d measured", n, len(m.scene.State.Tensors))
	if v.Effective != "" && v.Effective != v.Plain() {
		note += "  ran as " + v.Effective
	}
	return note
}

// sized is measured behind the variant's size.
func (m *Model) sized(v sessions.Variant) string {
	if v.BitsPerWeight > 0 {
		return bitsText(v.BitsPerWeight) + "  " + m.measured(v)
	}
	return m.measured(v)
}

// offAdd is why no variant can be added.
func (m *Model) offAdd() string {
	if m.src.runner != nil && !m.src.closed {
		return ""
	}
	switch m.scene.Mode {
	case sessions.Saved:
		return "quantize CHECKPOINT --session FILE adds variants: this session is saved"
	case sessions.Replay:
		return "this is a replay: a variant can be added to a live run"
	case sessions.Follow:
		return "another process runs this session: it alone can add variants"
	}
	return "the run has ended for good: a variant can be added to a live run"
}

// offCalibrated is why no calibrated variant can be added to a live run.
func (m *Model) offCalibrated() string {
	if run, ok := m.src.feed.(interface{ NoCalibration() string }); ok {
		return run.NoCalibration()
	}
	return ""
}

func (m *Model) acceptVariants(p *picker, at *item) tea.Cmd {
	marked := p.marked()
	if len(marked) == 0 && at.box {
		marked = []string{at.name}
	}
	m.closeDialog()
	if len(marked) == 0 {
		m.showVariant(at.tag)
		return nil
	}
	run := m.src.runner
	m.say("adding %s to the run", strings.Join(marked, ", "))
	return m.send("add", func() error { return run.Add(marked...) })
}

func (m *Model) pickBaseline() tea.Cmd {
	var items []item
	for _, v := range m.scene.State.Variants {
		items = append(items, item{name: v.Name, tag: v.ID, on: v.ID == m.scene.Baseline, note: m.sized(v),
			what: func(m *Model) tea.Cmd { m.compareWith(v.ID); return nil }})
	}
	m.open(newPicker("Compare with", "enter choose · esc close", items))
	return nil
}

func (m *Model) pickMetric() tea.Cmd {
	var items []item
	for _, x := range views.Metrics() {
		items = append(items, item{name: x.Name, note: x.Help, tag: -1, on: x.Name == m.scene.Metric.Name, off: m.scene.MetricOff(x),
			what: func(m *Model) tea.Cmd { m.setMetric(x); return nil }})
	}
	m.open(newPicker("Metric", "enter choose · esc close", items))
	return nil
}

// openPalette lists all that can be done, searchable.
func (m *Model) openPalette() tea.Cmd {
	p := newPicker("Commands", "enter do · ↑↓ choose · esc close", m.commands())
	line := newLineEdit("")
	p.search = &line
	p.find()
	m.open(p)
	return nil
}

// commands are the root's actions, the focused pane's keys, and what the
// pickers offer, each with the reason for which it cannot be done now.
func (m *Model) commands() []item {
	var out []item
	for i := range rootActions {
		a := &rootActions[i]
		if slices.Contains(a.keys, ":") {
			continue
		}
		out = append(out, item{name: a.name, key: keyLabel(a.keys), tag: -1, off: a.why(m), what: a.run})
	}
	if !m.layout.Small {
		id := m.focus
		for _, k := range m.ownKeys(id) {
			press := keyOf(k.Keys[0])
			out = append(out, item{name: lowerFirst(paneNames[id]) + ": " + k.Help, key: keyLabel(k.Keys), tag: -1, off: k.Disabled,
				what: func(m *Model) tea.Cmd { return m.press(press) }})
		}
	}
	out = append(out,
		item{name: "tier: run a hot tier", note: "experts that a workload asks for most in four bits", tag: -1, off: m.offTier(), what: func(m *Model) tea.Cmd { m.askTier(); return nil }},
		item{name: "bias: look at sign biases through depth", note: "of variants, layer by layer", tag: -1, off: m.offBiasNow(), what: func(m *Model) tea.Cmd { m.open(newBiasForm(m)); return nil }})
	for _, v := range m.scene.State.Variants {
		out = append(out,
			item{name: "show " + v.Name, tag: -1, what: func(m *Model) tea.Cmd { m.showVariant(v.ID); return nil }},
			item{name: "compare with " + v.Name, tag: -1, what: func(m *Model) tea.Cmd { m.compareWith(v.ID); return nil }})
	}
	for _, x := range views.Metrics() {
		out = append(out, item{name: "metric " + x.Name, note: x.Help, tag: -1, off: m.scene.MetricOff(x), what: func(m *Model) tea.Cmd { m.setMetric(x); return nil }})
	}
	for _, p := range m.projections {
		out = append(out, item{name: "projection " + p, tag: -1, what: func(m *Model) tea.Cmd { m.setProjection(p); return nil }})
	}
	for _, name := range views.ThemeNames() {
		out = append(out, item{name: "theme " + name, tag: -1, what: func(m *Model) tea.Cmd { m.setTheme(name); return nil }})
	}
	return out
}

// lowerFirst begins a name with a small letter, unless it is of capitals.
func lowerFirst(s string) string {
	if strings.ToUpper(s) == s {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

package tui

import "quantscope/views"

// looking is where the person looks, by name: IDs and places change their
// meaning when another state is shown.
type looking struct {
	variant, baseline choice
	tensor            string // under the cursor
	lent              *lent
}

// choice is a variant by name. While the state has no variant of that name,
// another one stands in for it.
type choice struct {
	name    string
	standIn int // ID, -1 while the variant itself is shown
}

// lent is a variant that the comparison shows instead of the one that was
// chosen, which it differs from.
type lent struct{ chosen, shown string }

// remember notes what is shown after a message, whoever changed it.
func (m *Model) remember() {
	sc := m.scene
	for _, x := range []struct {
		c  *choice
		id int
	}{{&m.look.variant, sc.Variant}, {&m.look.baseline, sc.Baseline}} {
		if x.id < len(sc.State.Variants) && (x.c.name == "" || x.id != x.c.standIn) {
			*x.c = choice{sc.State.Variants[x.id].Name, -1}
		}
	}
	if sc.Cursor >= 0 && sc.Cursor < len(sc.State.Tensors) {
		m.look.tensor = sc.State.Tensors[sc.Cursor].Name
	}
}

// recallVariants shows the variants that were chosen once the state has them.
func (m *Model) recallVariants() {
	sc := m.scene
	sc.Variant, sc.Baseline = m.idOf(&m.look.variant, sc.Variant), m.idOf(&m.look.baseline, sc.Baseline)
}

func (m *Model) idOf(c *choice, now int) int {
	st := m.scene.State
	if id := st.VariantByName(c.name); id >= 0 {
		c.standIn = -1
		return id
	}
	c.standIn = max(min(now, len(st.Variants)-1), 0)
	return c.standIn
}

// recallPlace puts the cursor on the tensor where it was, of the tensors that
// are there now.
func (m *Model) recallPlace() {
	sc := m.scene
	tensors := sc.State.Tensors
	if sc.Cursor >= len(tensors) || sc.Cursor < 0 || tensors[sc.Cursor].Name != m.look.tensor {
		sc.Cursor = min(max(sc.Cursor, 0), len(tensors)-1)
		for i := range tensors {
			if tensors[i].Name == m.look.tensor {
				sc.Cursor = i
				break
			}
		}
	}
	m.followShown()
}

// showVariant shows the variant that the person chose.
func (m *Model) showVariant(id int) {
	m.scene.SetVariant(id)
	m.look.variant = choice{}
	m.look.lent = nil
}

// compareWith compares with the variant that the person chose.
func (m *Model) compareWith(id int) {
	m.scene.SetBaseline(id)
	m.look.baseline = choice{}
}

// lend shows the variant after the baseline where the comparison would show the
// baseline twice: a variant differs nowhere from itself.
func (m *Model) lend() {
	sc := m.scene
	if sc.Variant != sc.Baseline || len(sc.State.Variants) < 2 {
		return
	}
	next := (sc.Baseline + 1) % len(sc.State.Variants)
	m.look.lent = &lent{sc.State.Variants[sc.Variant].Name, sc.State.Variants[next].Name}
	sc.SetVariant(next)
	m.sayVariant()
}

// giveBack ends what lend did, unless something else is shown by now.
func (m *Model) giveBack() {
	l := m.look.lent
	m.look.lent = nil
	if l == nil || m.look.variant.name != l.shown {
		return
	}
	m.look.variant.name = l.chosen
	m.scene.SetVariant(m.idOf(&m.look.variant, m.scene.Variant))
}

// followShown puts the cursor on a tensor that filter and projection leave in:
// of those, the nearest to where it was. Where none is left in it stays.
func (m *Model) followShown() {
	sc := m.scene
	if sc.Cursor < 0 || sc.Shown(sc.Cursor) {
		return
	}
	if id := nearestShown(sc); id >= 0 {
		sc.SetCursor(id)
	}
}

// nearestShown is the shown tensor nearest to the cursor, -1 where none is: in
// the same layer before others, of the same kind, of the same expert, and then
// the next one in the checkpoint.
func nearestShown(sc *views.Scene) int {
	from := &sc.State.Tensors[sc.Cursor].Role
	best, least := -1, [4]int{}
	for id := range sc.State.Tensors {
		if !sc.Shown(id) {
			continue
		}
		to := &sc.State.Tensors[id].Role
		kind := 0
		if to.Kind != from.Kind || to.MTP != from.MTP {
			kind = 1
		}
		far := [4]int{apart(to.Layer, from.Layer), kind, apart(to.Expert, from.Expert), apart(id, sc.Cursor)}
		if best < 0 || nearer(far, least) {
			best, least = id, far
		}
	}
	return best
}

func apart(a, b int) int { return max(a-b, b-a) }

func nearer(a, b [4]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

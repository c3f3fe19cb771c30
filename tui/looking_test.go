package tui

import (
	"fmt"
	"testing"

	"quantscope/sessions"
	"quantscope/views"
)

// placeUnder is the short name of the tensor under the cursor.
func placeUnder(d *driver) string {
	return views.ShortName(&d.m.scene.State.Tensors[d.m.scene.Cursor])
}

// The cursor never stays on a tensor that what is shown leaves out: it goes to
// the same expert's shown projection, or to the nearest shown tensor.
func TestCursorFollowsWhatIsShown(t *testing.T) {
	st := demoState()
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	for i := range st.Tensors {
		if views.ShortName(&st.Tensors[i]) == "L3 e6 up" {
			d.m.scene.SetCursor(i)
		}
	}
	for _, want := range []string{"L3 e6 gate", "L3 e6 up", "L3 e6 down", "L3 e6 down"} {
		if d.Press("p"); placeUnder(d) != want {
			t.Errorf("projection %q: the cursor is on %s, want %s", d.m.scene.Projection, placeUnder(d), want)
		}
	}
	d.Press(":").Type("projection gate").Press("enter")
	if got := placeUnder(d); got != "L3 e6 gate" {
		t.Errorf("by the palette the cursor is on %s", got)
	}

	// Both a filter and a projection: what both leave in.
	d.Press("/").Type(`experts\.9\.`).Press("enter")
	if got := d.m.scene; !got.Shown(got.Cursor) {
		t.Errorf("after the filter the cursor is on %s, which is hidden", placeUnder(d))
	}
	d.Press("p").Says("projection up")
	if at := placeUnder(d); !d.m.scene.Shown(d.m.scene.Cursor) {
		t.Errorf("after the projection the cursor is on %s, which is hidden", at)
	}
	d.Press("esc", "/").Type("gate").Press("enter").Says("p shows other projections: no match is of projection up")
	d.Press("p").Says("which hides all of projection down")

	// enter may come before the filter has been made.
	d.Press("esc", "p")
	d.m.scene.SetCursor(0)
	d.Send(keyOf("/")).Send(keyOf("7")).Send(keyOf("enter")).WaitIdle()
	if !d.m.scene.Shown(d.m.scene.Cursor) {
		t.Errorf("after a quick filter the cursor is on %s, which is hidden", placeUnder(d))
	}
	d.Says("match 7")
}

// replayed is a replay whose file begins without variants and, where tensors is
// false, without tensors.
func replayed(whole *sessions.State, tensors bool) *fakePlay {
	p := newFakePlay(whole)
	p.start.Variants, p.start.Records = nil, nil
	if !tensors {
		p.start.Tensors = nil
	}
	return p
}

// What is looked at is the same in a replay and back, also where the replay
// comes to it only later.
func TestReplayKeepsWhatIsLookedAt(t *testing.T) {
	for _, tensors := range []bool{true, false} {
		t.Run(fmt.Sprint("tensors ", tensors), func(t *testing.T) {
			whole := demoState()
			o := fixed()
			var play *fakePlay
			o.OpenReplay = func(string) (sessions.Player, error) { play = replayed(whole, tensors); return play, nil }
			d := drive(t, newFakeFeed(sessions.Saved, whole, whole), o, 120, 40)
			d.Press("/").Type("layers").Press("enter", "p", "p", "m", "L", "V", "V", "b")
			d.m.scene.SetCursor(100)
			d.WaitIdle().Send(keyOf("down")).WaitIdle()
			want := lookOf(d)

			d.Press("r").Sees("» replay")
			st := emptied(whole)
			st.Variants, st.Records = nil, nil
			play.give(sessions.Batch{Reset: st})
			d.WaitIdle()
			for v := range whole.Variants { // one after the other, as they were added
				play.give(sessions.Batch{Variants: whole.Variants[v : v+1]})
				d.WaitIdle()
			}
			if got := lookOf(d); got != want {
				t.Errorf("in the replay %q, want %q", got, want)
			}
			play.give(sessions.Batch{Reset: st}) // it goes back to its beginning
			d.WaitIdle().Press("r").Sees("○ saved")
			if got := lookOf(d); got != want {
				t.Errorf("after the replay %q, want %q", got, want)
			}
		})
	}
}

// lookOf is what the scene shows, by name.
func lookOf(d *driver) string {
	sc := d.m.scene
	return fmt.Sprint(sc.State.Variants[sc.Variant].Name, " against ", sc.State.Variants[sc.Baseline].Name, " at ", placeUnder(d),
		" by ", sc.Metric.Name, " ", sc.Projection, " /", sc.Filter.Text, " ", sc.LockScale)
}

// A variant that was chosen while another stood in for the one before stays.
func TestChoiceInReplayStays(t *testing.T) {
	whole := demoState()
	o := fixed()
	var play *fakePlay
	o.OpenReplay = func(string) (sessions.Player, error) { play = replayed(whole, true); return play, nil }
	d := drive(t, newFakeFeed(sessions.Saved, whole, whole), o, 120, 40)
	d.Press("V", "V", "r")
	play.give(sessions.Batch{Variants: whole.Variants[:2]})
	d.WaitIdle().Press("v", "home", "enter")
	play.give(sessions.Batch{Variants: whole.Variants[2:]})
	d.WaitIdle()
	if got := d.m.scene.Variant; got != 0 {
		t.Errorf("variant %d is shown, want the chosen 0", got)
	}
}

// The comparison shows another variant than the baseline, and what it shows for
// that does not outlast it unless it was chosen there.
func TestCompareLeavesTheMapAlone(t *testing.T) {
	for _, c := range []struct {
		keys []string
		want int
	}{
		{[]string{"4", "1"}, 0},
		{[]string{"4", "4", "2"}, 0},
		{[]string{"4", "enter", "1"}, 0},
		{[]string{"4", "enter", "esc", "8"}, 0},
		{[]string{"4", "r", "r", "1"}, 0},
		{[]string{"4", "r", "1"}, 0},
		{[]string{"4", "V", "1"}, 2},
		{[]string{"4", "v", "enter", "1"}, 1}, // enter on what is shown chooses it
		{[]string{"V", "4", "1"}, 1},
	} {
		o := fixed()
		o.OpenReplay = func(string) (sessions.Player, error) { return newFakePlay(demoState()), nil }
		d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 120, 40)
		d.Press(c.keys...)
		if got := d.m.scene.Variant; got != c.want {
			t.Errorf("after %v variant %d is shown, want %d", c.keys, got, c.want)
		}
		if d.Press("4"); d.m.scene.Variant == d.m.scene.Baseline {
			t.Errorf("after %v the comparison shows the baseline twice", c.keys)
		}
	}
}

package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"strconv"
	"strings"
)

// holdings are what a session holds that candidates may be made of: recipes that it follows,
// and maps of its runs of hot tiers.
type holdings struct {
	recipes []RecipeSource
	tiers   []*TierRun // without their windows
}

// recipe is the text of a recipe by its name.
func (h *holdings) recipe(name string) (text string, ok bool) {
	i := slices.IndexFunc(h.recipes, func(s RecipeSource) bool { return s.Name == name })
	if i < 0 {
		return "", false
	}
	return h.recipes[i].Text, true
}

// tier is the text of a map by its name; see State.TierMap.
func (h *holdings) tier(name string) (text string, ok bool) { return tierMap(h.tiers, name) }

// storedHeld reads what a session file holds of this.
func storedHeld(ctx context.Context, path string) (h holdings, err error) {
	if h.recipes, err = storedRecipes(ctx, path); err != nil {
		return h, err
	}
	r, err := openReader(ctx, path)
	if err != nil {
		return h, err
	}
	defer r.Close()
	st := &State{}
	var book tierBook
	err = withConn(ctx, r, func(c *sql.Conn) error {
		return each(ctx, c, selectEvents+" where kind <> 'tap' and kind in ('tier', 'tierend') order by seq", func(row []driver.Value) error {
			e, err := scanEvent(row)
			if err == nil && book.place(&e) == nil {
				st.takeTier(&e)
			}
			return nil // a damaged one is said when the session is opened
		})
	})
	h.tiers = st.Tiers
	return h, readError(ctx, path, err)
}

// TierMap is the text of a map of a session's runs, by the name that follows tier: in
// the spec of a candidate: RUN/LABEL, RUN counted from 0 in the order in which they
// began, or LABEL of the newest run that has such a map; with #random or #coldest behind
// it a control.
func (s *State) TierMap(name string) (text string, ok bool) { return tierMap(s.Tiers, name) }

func tierMap(runs []*TierRun, name string) (text string, ok bool) {
	of := func(r *TierRun, label string) (string, bool) {
		if r.End == nil {
			return "", false
		}
		m, ok := r.End.MapOf(label)
		if !ok || m == nil {
			return "", false
		}
		b, err := m.Text()
		return string(b), err == nil
	}
	if run, label, cut := strings.Cut(name, "/"); cut {
		if i, err := strconv.Atoi(run); err == nil && strconv.Itoa(i) == run && i >= 0 && i < len(runs) {
			return of(runs[i], label)
		}
		return "", false
	}
	for _, r := range slices.Backward(runs) {
		if text, ok := of(r, name); ok {
			return text, true
		}
	}
	return "", false
}

// TierMaps are the names by which TierMap knows the maps of a session, newest run
// first, each once: LABEL where that is enough, else RUN/LABEL.
func (s *State) TierMaps() []string {
	var names []string
	for i, r := range slices.Backward(s.Tiers) {
		if r.End == nil {
			continue
		}
		labels, _ := r.End.Labels()
		for _, l := range labels {
			if slices.Contains(names, l) {
				l = strconv.Itoa(i) + "/" + l
			}
			names = append(names, l)
		}
	}
	return names
}

package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	recipes "quantscope/quant/plan"
)

// planJSON is a recipe with its plan, the payload of plan events.
type planJSON struct {
	Name   string          `json:"name"`
	SHA256 string          `json:"sha256"` // of text
	Text   string          `json:"text"`
	Groups []variantJSON   `json:"groups"`
	Of     []int           `json:"of"` // runs of tensors: group, or -1, and how many follow one another
	Plan   json.RawMessage `json:"plan"`
}

// newPlanEvent says which recipe a variant follows.
func newPlanEvent(variant int, r *RecipeRun) (stored, error) {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return stored{}, fmt.Errorf("sessions: recipe %s: its plan cannot be kept: %w", r.Name, err)
	}
	p := &planJSON{Name: r.Name, SHA256: r.SHA256, Text: r.Text, Of: runLengths(r.Of), Plan: plan}
	for _, g := range r.Groups {
		p.Groups = append(p.Groups, newVariantJSON(g))
	}
	e := newNote(EventPlan, variant, -1, note{Message: r.message(), Plan: p})
	run := *r
	run.Variant = variant
	e.recipe, e.note.Plan = &run, nil // the run has it all
	return e, nil
}

// message is the line of the log.
func (r *RecipeRun) message() string {
	text := fmt.Sprintf("recipe %s (sha256 %s): ", r.Name, short(r.SHA256))
	counts := make([]int64, len(r.Groups))
	for _, g := range r.Of {
		if g >= 0 {
			counts[g]++
		}
	}
	for g, n := range counts {
		if g > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s for %s", r.Groups[g].Name, count(n, "tensor"))
	}
	if n := r.Kept(); n > 0 {
		text += fmt.Sprintf("; %s of the session as in the source", count(n, "tensor"))
	}
	return oneLine(text)
}

// errPlan is of a plan event that cannot be used.
var errPlan = errors.New("a plan event holds no plan")

// run is what a plan event holds.
func (p *planJSON) run(variant int) (*RecipeRun, error) {
	if p == nil || len(p.Groups) == 0 {
		return nil, errPlan
	}
	if sum := sumOf(p.Text); sum != p.SHA256 {
		return nil, fmt.Errorf("%w: the sha256 of its recipe is %s, not %s", errPlan, sum, p.SHA256)
	}
	r := &RecipeRun{Variant: variant, Name: p.Name, SHA256: p.SHA256, Text: p.Text, Plan: &recipes.Plan{}}
	if err := json.Unmarshal(p.Plan, r.Plan); err != nil {
		return nil, fmt.Errorf("%w: %w", errPlan, err)
	}
	for g := range p.Groups {
		r.Groups = append(r.Groups, p.Groups[g].variant(g))
		r.Schemes = append(r.Schemes, p.Groups[g].Name)
	}
	var err error
	if r.Of, err = expandRuns(p.Of, len(r.Groups)); err != nil {
		return nil, err
	}
	return r, nil
}

// runLengths writes a list as runs: a value, and how often it follows on itself.
func runLengths(list []int) []int {
	out := []int{}
	for i, v := range list {
		if i > 0 && v == list[i-1] {
			out[len(out)-1]++
		} else {
			out = append(out, v, 1)
		}
	}
	return out
}

// expandRuns reads what runLengths wrote, of groups below n.
func expandRuns(runs []int, n int) ([]int, error) {
	if len(runs)%2 != 0 {
		return nil, fmt.Errorf("%w: half a run of tensors", errPlan)
	}
	total := 0
	for i := 0; i < len(runs); i += 2 {
		if runs[i] < -1 || runs[i] >= n || runs[i+1] < 1 || runs[i+1] > maxTensors-total {
			return nil, fmt.Errorf("%w: a run of %d tensors in group %d of %d", errPlan, runs[i+1], runs[i], n)
		}
		total += runs[i+1]
	}
	out := make([]int, 0, total)
	for i := 0; i < len(runs); i += 2 {
		for range runs[i+1] {
			out = append(out, runs[i])
		}
	}
	return out, nil
}

// sumOf is the SHA-256 of a text, in hex.
func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// addedEvents are those that add a variant to a session: what it is, and of a
// recipe its plan and what the plan warns of.
func addedEvents(id int, q Quantizer) ([]stored, error) {
	events := []stored{newVariantEvent(id, q.Variant)}
	if q.recipe == nil {
		return events, nil
	}
	plan, err := newPlanEvent(id, q.recipe)
	if err != nil {
		return nil, err
	}
	events = append(events, plan)
	for _, f := range q.recipe.Plan.Findings {
		if f.ID == recipes.OfCheckpoint { // said when the session was created
			continue
		}
		where := f.Where
		if where == "" {
			where = f.Tensor
		}
		if where != "" {
			where += ": "
		}
		events = append(events, newNote(EventFinding, id, -1, note{Message: oneLine(q.recipe.Name + ": " + where + f.Message), Code: "plan-" + f.ID}))
	}
	return events, nil
}

// putRecipe writes the rows of a recipe.
func (in *inserts) putRecipe(ctx context.Context, e *stored) error {
	r := e.recipe
	if _, err := in.recipe.ExecContext(ctx, e.Variant, e.Seq, r.Name, r.SHA256, r.Text, len(r.Groups), r.Kept()); err != nil {
		return err
	}
	counts := make([]int, len(r.Groups))
	for t, g := range r.Of {
		if _, err := in.assigned.ExecContext(ctx, e.Variant, t, orNull(g)); err != nil {
			return err
		}
		if g >= 0 {
			counts[g]++
		}
	}
	for i, g := range r.Groups {
		if _, err := in.recipeGroup.ExecContext(ctx, e.Variant, i, g.Name, g.Scheme, g.Convention, g.BitsPerWeight, counts[i]); err != nil {
			return err
		}
	}
	return nil
}

package tui

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/lint"
	"quantscope/sessions"
)

// A finding is looked for, opened and followed to the map, and esc leads back
// through all of it.
func TestScenarioAuditFinding(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 36}, {200, 60}} {
		feed := auditing80(sessions.Saved, withExport())
		good := feed.give
		feed.give = func(ctx context.Context, r sessions.AuditRequest) (*sessions.Audit, error) {
			a, err := good(ctx, r)
			a.Findings = append(a.Findings,
				lint.Finding{ID: "scale-zero", Severity: lint.Error, File: "model.safetensors", Tensor: "model.layers.2.mlp.experts.7.down_proj.weight_scale", Message: "all scales are 0", Explanation: "Zeros.", Server: "It answers nothing.", Fix: "quantize again"},
				lint.Finding{ID: "tokenizer-truncation", Severity: lint.Warning, File: "tokenizer.json", Message: "prompts are cut", Mend: lint.MendTokenizer})
			return a, err
		}
		d := drive(t, feed, fixed(), size[0], size[1])
		d.Press("7", "f").Sees("scale-zero", "tokenizer-trunc", "globals-differ", "[findings")
		d.Press("/").Type("zero").Sees("1 of 3 findings").Press("enter").Sees("1 of 3 findings; esc shows all")
		d.Press("enter").Sees("It answers nothing.", "quantize again", "L2 e7 down")
		d.m.scene.SetProjection("up") // which would hide it on the map
		d.Press("enter").On(ScreenMap).Says("L2 e7 down: esc leads back to the audit")
		if r := d.m.scene.State.Tensors[d.m.scene.Cursor].Role; r.Layer != 2 || r.Expert != 7 || r.Projection != "down" || !d.m.scene.Shown(d.m.scene.Cursor) {
			t.Errorf("%v: the map stands on %+v", size, r)
		}
		fits(t, d.m.View(), size[0], size[1])
		d.Press("esc").On(ScreenAudit).Sees("It answers nothing.")
		d.Press("esc", "esc").Sees("tokenizer-trunc")
		d.Press("/").Type("(").Press("enter").Sees("missing closing").Press("esc").Sees("tokenizer-trunc")
		d.Press("/").Type("trunc").Press("enter", "enter").Sees("quantscope mend", "--steps tokenizer")
		d.Press("enter").On(ScreenAudit).Says("not about a tensor")
		d.Press("esc", "esc", "esc").Sees("[census")
		d.ClickOn("plan none").Sees("[plan").Press("tab").Sees("[fallbacks").Press("tab").Sees("[census").Press("shift+tab").Sees("[fallbacks")
		d.Press("?").Sees("Help").Press("esc").Press(":").Type("plan of the recipe").Press("enter").Sees("[plan", "follows no recipe")
	}
}

// The plan and the fallbacks of a recipe that the real engine followed.
func TestScenarioAuditRecipe(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	recipe, err := sessions.OpenRecipe("mixed-nvfp4-fp8")
	if err != nil {
		t.Fatal(err)
	}
	live, err := sessions.Start(ctx, sessions.Options{
		Checkpoint: "demo", Session: filepath.Join(t.TempDir(), "demo.qscope"), Recipes: []sessions.RecipeSource{recipe}, Threads: 1, Program: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := live.Close(); err != nil {
			t.Error(err)
		}
	}()
	d := drive(t, live, withSessions(), 120, 36)
	d.Until(ctx, func(st *sessions.State) bool { return st.Progress.State == sessions.RunFinished })
	d.Press("7", "P").Sees("recipe mixed-nvfp4-fp8", "228 of 292 matrices", "group 2", "fp8-channel", "the plan finds nothing wrong")
	d.Press("down", "enter").Sees("group 2 · fp8-channel").Press("enter").On(ScreenMap).Sees("as fp8-channel")
	d.Press("esc").On(ScreenAudit).Press("F").Sees("None: everything ran as requested.", "as requested")
	d.Resize(200, 60).Sees("192 of 192 routed experts")
	fits(t, d.m.View(), 200, 60)
}

// The parts at the sizes that the design names.
func TestAuditPartScreens(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 36}, {200, 60}} {
		d := drive(t, auditing80(sessions.Saved, withExport()), fixed(), size.w, size.h)
		d.Press("7")
		for _, c := range []struct{ name, keys string }{{"audit-findings", "f"}, {"audit-finding", "enter"}, {"audit-fallbacks", "F"}, {"audit-filter", "f / g"}} {
			d.Press(strings.Fields(c.keys)...)
			fits(t, d.m.View(), size.w, size.h)
			golden(t, fmt.Sprintf("%s-%dx%d", c.name, size.w, size.h), d.m.View())
		}
	}
}

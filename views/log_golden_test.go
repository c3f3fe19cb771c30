package views

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/exp/golden"
)

// checkGolden compares a view with the golden file named for the test. Blanks at
// the ends of lines are not kept.
func checkGolden(t *testing.T, view string) {
	t.Helper()
	lines := strings.Split(view, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	golden.RequireEqual(t, []byte(strings.Join(lines, "\n")+"\n"))
}

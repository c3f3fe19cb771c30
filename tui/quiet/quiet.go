// Package quiet keeps Bubble Tea from asking the terminal questions before main
// begins.
//
// Bubble Tea v1 has an init function that asks for the background colour
// through termenv. On a terminal that does not answer, every command of a
// program that links it hangs for five seconds; on one that does, keys that
// were typed ahead are lost; and reports get escape sequences in their output.
// termenv does not ask where the variable CI is set. This package sets it, and
// package tui, whose own init comes after Bubble Tea's, takes it away again and
// asks in its own time.
//
// It works because packages are initialized in a fixed order: of those whose
// imports are ready, the one with the least import path comes first (release
// notes of Go 1.21). This one needs nothing but os; Bubble Tea needs regexp
// among others, which comes later than quantscope/tui/quiet. So this package
// must import nothing else. A test of package tui starts a process on a
// terminal and sees that nothing is asked.
package quiet

import "os"

const variable = "CI"

var set = func() bool {
	if os.Getenv(variable) != "" {
		return false
	}
	return os.Setenv(variable, "quiet") == nil
}()

// Done puts the environment back as it was.
func Done() {
	if set {
		_ = os.Unsetenv(variable) // it fails only for names that are none
		set = false
	}
}

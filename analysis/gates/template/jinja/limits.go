package jinja

import "fmt"

// Bounds of one rendering.
const (
	maxSteps = 1 << 23 // expressions, statements, turns of loops
	maxBytes = 1 << 26 // of one text, and of the prompt
	maxMade  = 1 << 28 // bytes and elements that are made in all
	maxDepth = 200     // calls, and blocks and expressions within each other
	maxRange = 100_000 // numbers of one range(), as in Jinja's sandbox
)

// Raised is what a template itself refuses, by raise_exception.
type Raised struct{ Message string }

func (e *Raised) Error() string { return "the template refuses this: " + e.Message }

// failure carries an error out of a rendering; Render recovers it.
type failure struct{ err error }

func (r *run) failf(format string, a ...any) {
	panic(failure{fmt.Errorf("line %d: "+format, append([]any{r.line}, a...)...)})
}

func (r *run) step() {
	if r.steps++; r.steps > maxSteps {
		r.failf("takes more than %d steps", maxSteps)
	}
}

// make accounts for n bytes or elements before they are made.
func (r *run) make(n int) {
	if n > maxBytes {
		r.failf("a value is larger than %d bytes", maxBytes)
	}
	if r.made += n; r.made > maxMade {
		r.failf("makes more than %d bytes", maxMade)
	}
}

func (r *run) enter() {
	if r.depth++; r.depth > maxDepth {
		r.failf("calls are nested more than %d times", maxDepth)
	}
}

func (r *run) leave() { r.depth-- }

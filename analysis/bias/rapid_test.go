package bias

import "flag"

// Property tests draw the same cases each time, so that none fails by chance
// where nothing changed. docs/contributing.md says how to draw others.
func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}

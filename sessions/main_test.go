package sessions

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also is the program of child processes: see child_test.go.
func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(what))
	}
	goleak.VerifyTestMain(m)
}

//go:build unix

package sessions

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"quantscope/analysis/gates"
)

func init() {
	childVerbs["gatesfull"] = func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		most := uint64(info.Size()) + 4<<20
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
		return childGates(path, fullPasses, fatAnswer)
	}
}

// What is asked where the disk is full.
const (
	fullPasses  = 25
	fullAnswers = 2 * 4 * fullPasses
)

// fatAnswer makes an answer long, and other than the one before it.
func fatAnswer(r *gates.Result) {
	var b strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&b, "%x", (i*2654435761)^(r.Case*7919+r.Pass*104729+r.Arm))
	}
	r.Answer.Replies[0].Text = b.String()
}

// A disk that is full ends gates with its name; what was recorded stays, and the same
// request goes on when there is room.
func TestGatesOnAFullDisk(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	out, err := startChild(t, "gatesfull "+path).output()
	if err == nil {
		t.Fatalf("the gates did not stop: %s", out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "error sessions: "+path+": no space") {
		t.Errorf("the last line is %q", last)
	}
	st := openState(t, path)
	if len(st.Gates) != 1 || len(st.Gates[0].Results) == 0 || len(st.Gates[0].Results) == fullAnswers {
		t.Fatalf("%d runs", len(st.Gates))
	}
	had := len(st.Gates[0].Results)
	t.Logf("%d answers fit", had)
	f := manyGates(fullPasses)
	f.spoil = fatAnswer
	if err := gatesOn(t, openFeed(t, path), f, "bf16", "nvfp4"); err != nil || f.prior != had || f.asked != fullAnswers-had {
		t.Errorf("after space was made: %d there, %d asked: %v", f.prior, f.asked, err)
	}
	if g := openState(t, path).Gates; len(g) != 1 || len(g[0].Results) != fullAnswers || g[0].End.State != string(RunFinished) {
		t.Errorf("%d answers", len(g[0].Results))
	}
}

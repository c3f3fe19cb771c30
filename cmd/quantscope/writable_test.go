package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/sessions"
)

// Nothing is written over a session or over what a command reads, also with --force,
// and also where that file is not there yet.
func TestWritableOverNothingThatIsUsed(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	session, suite, old := in("s.qscope"), in("suite.yaml"), in("old.xml")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--targets", "*layers.1.*experts.0.*", "--session", session); o.code != exitGood {
		t.Fatalf("exit %d, %s", o.code, o.err)
	}
	for _, path := range []string{suite, old} {
		if err := os.WriteFile(path, []byte("kept"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(suite, in("link.xml")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		used []string
		want string // "" where it can be written
	}{
		{session, []string{session}, "is used already"},
		{session, nil, "is a session"},
		{suite, []string{"", in(".") + "/./suite.yaml"}, "is used already"},
		{in("link.xml"), []string{suite}, "is used already"},
		{in("new.qscope"), []string{in("new.qscope")}, "is used already"},
		{old, []string{session, suite, ""}, ""},
		{in("new.xml"), []string{session, suite}, ""},
	} {
		err := writable(c.path, true, c.used...)
		if c.want == "" && err != nil || c.want != "" && (exitOf(err) != exitUsage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %q: %v, want %q", c.path, c.used, err, c.want)
		}
	}
	if o := command(t, "gates", "demo", "--probe", "facts", "--session", session, "--junit", session, "--force"); o.code != exitUsage {
		t.Errorf("gates --junit over its session: exit %d, %s", o.code, o.err)
	}
	if o := command(t, "measure", "demo", "--candidate", "nvfp4", "--session", session, "--write-kl-base", session, "--force"); o.code != exitUsage {
		t.Errorf("measure --write-kl-base over its session: exit %d, %s", o.code, o.err)
	}
	if is, err := sessions.IsSession(session); err != nil || !is {
		t.Errorf("the session is %v, %v", is, err)
	}
}

// Of a session that is damaged it is not said that the same command goes on.
func TestGatesOfADamagedSession(t *testing.T) {
	_, run := gatesFixture()
	err := gatesKept("s.qscope", run, &sessions.FileError{Path: "s.qscope", Reason: "is damaged", Err: sessions.ErrDamaged})
	if strings.Contains(err.Error(), "goes on") || err.Error() != "sessions: s.qscope: is damaged" {
		t.Error(err)
	}
	if err := gatesKept("s.qscope", run, errors.New("nobody answers")); !strings.Contains(err.Error(), "--session s.qscope goes on") {
		t.Error(err)
	}
}

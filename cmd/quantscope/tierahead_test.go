package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTierAhead: what would be refused once the routing is known is refused before a
// token is routed: no session is made, and no progress is told.
func TestTierAhead(t *testing.T) {
	dir := t.TempDir()
	maps := filepath.Join(dir, "maps")
	if err := os.Mkdir(maps, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"25%.json", "file"} {
		if err := os.WriteFile(filepath.Join(maps, name), []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	session := filepath.Join(dir, "tier.qscope")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"suite":     {[]string{"--suite", "twobits"}, exitBadInput, `unknown suite "twobits"`},
		"probe":     {[]string{"--suite", "twobit", "--probe", "arithmetics"}, exitBadInput, "is called arithmetics (known: acceptance,"},
		"text":      {[]string{"--kl", "--corpus", filepath.Join(dir, "absent.txt")}, exitBadInput, "absent.txt"},
		"map":       {[]string{"--out", maps, "--budget", "0,25%"}, exitUsage, "25%.json: is there already; --force overwrites it"},
		"no folder": {[]string{"--out", filepath.Join(maps, "file")}, exitEnvironment, "is no folder"},
		"hot":       {[]string{"--hot", "nvfp5"}, exitUsage, `--hot: variant "nvfp5"`},
		"gptq":      {[]string{"--hot", "nvfp4+gptq"}, exitUsage, "--hot: nvfp4+gptq is calibrated"},
		"cold":      {[]string{"--cold", "source"}, exitUsage, "--cold source: "},
		"drift":     {[]string{"--workload", "zipf:1:drift=0"}, exitUsage, `"drift=0": a whole number from 1 is wanted`},
		"tokens":    {[]string{"--workload", "zipf:1:tokens=-1"}, exitUsage, `"tokens=-1": a whole number from 1 is wanted`},
	} {
		t.Run(name, func(t *testing.T) {
			o := command(t, append([]string{"tier", "demo", "--session", session}, c.args...)...)
			if o.code != c.code || !strings.Contains(o.err, c.want) || strings.Count(o.err, "\n") != 1 {
				t.Errorf("exit %d, want %d and %q:\n%s", o.code, c.code, c.want, o.err)
			}
			if _, err := os.Stat(session); err == nil {
				t.Error("a session was made")
			}
		})
	}
}

// TestTierAcceptance: a suite that measures acceptance has its rates in the table and
// the document, not answers that passed.
func TestTierAcceptance(t *testing.T) {
	suite := filepath.Join(t.TempDir(), "own.yaml")
	text := "name: own\nabout: Drafts.\nprobes:\n  - {id: drafts, about: Two texts., grader: acceptance, settings: {max_tokens: 16}, cases: [{ask: Hello}, {ask: Count to ten}]}\n"
	if err := os.WriteFile(suite, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	session := filepath.Join(t.TempDir(), "tier.qscope")
	o := command(t, "tier", "demo", "--workload", "zipf:1:tokens=512", "--budget", "0", "--suite", suite, "--session", session, "--json")
	var d tierDocument
	if err := json.Unmarshal([]byte(o.out), &d); err != nil {
		t.Fatalf("exit %d: %s: %v", o.code, o.err, err)
	}
	if len(d.Acceptance) != 5 || d.Acceptance[0].K == nil || *d.Acceptance[0].K != 1 || d.Acceptance[0].Tokens != 32 {
		t.Fatalf("acceptance %+v", d.Acceptance)
	}
	var out strings.Builder
	if err := printTier(&out, &d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"drafts: acceptance of drafts, 32 greedy tokens an arm", "tier 0%", "control"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "2/2") {
		t.Errorf("acceptance stands among answers that passed:\n%s", out.String())
	}
	if o := command(t, "sessions", "export", session); o.code != exitGood || o.out != "" || !strings.Contains(o.err, "holds no tap records") {
		t.Errorf("an export without records: %+v", o)
	}
}

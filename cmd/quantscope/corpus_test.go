package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCorpusBuildInfoCheck(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("In the beginning was the word, and every word has its own number.\nNo two lines are alike: 1 2 3.\n", 40)), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "text.json")
	o := command(t, "corpus", "build", text, "--tokenizer", "demo", "--chunk", "64", "--out", out)
	if o.code != exitGood || !strings.Contains(o.out, "chunks of 64 tokens") || !strings.Contains(o.out, "begin      none") {
		t.Fatalf("build: %d %s %s", o.code, o.out, o.err)
	}
	if o := command(t, "corpus", "build", text, "--tokenizer", "demo", "--out", out); o.code != exitUsage || !strings.Contains(o.err, "--force") {
		t.Errorf("overwriting: %d %s", o.code, o.err)
	}
	info := command(t, "corpus", "info", out, "--tokenizer", "demo", "--json")
	var d corpusDocument
	if err := json.Unmarshal([]byte(info.out), &d); err != nil || d.Tokens != int64(d.Chunks)*64 || d.Positions != int64(d.Chunks)*63 || len(d.SHA256) != 64 || len(d.Texts) != 1 || d.Begin != nil {
		t.Errorf("info: %+v, %v", d, err)
	}
	check := command(t, "corpus", "check", out, "prose", "--calib", out)
	if check.code != exitCheckFailed || !strings.Contains(check.out, "refused") || !strings.Contains(check.out, "good     prose and text share none") {
		t.Errorf("check: %d %s %s", check.code, check.out, check.err)
	}
	if o := command(t, "corpus", "check", "demo", "--calib", "calib", "--json"); o.code != exitGood || !strings.Contains(o.out, `"shared": 350`) {
		t.Errorf("the demo's: %d %s %s", o.code, o.out, o.err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out, []byte(strings.Replace(string(data), "],\n[", ",", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	if o := command(t, "corpus", "info", out); o.code != exitBadInput || !strings.Contains(o.err, "text.json") || o.out != "" {
		t.Errorf("a changed file: %d %s %s", o.code, o.out, o.err)
	}
}

func TestCorpusRefuses(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "short.txt")
	if err := os.WriteFile(short, []byte("too short"), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.json")
	ids := filepath.Join(dir, "ids.ids")
	if err := os.WriteFile(ids, make([]byte, 4096), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no command":   {[]string{"corpus", "make"}, exitUsage, "build, info, check"},
		"no text":      {[]string{"corpus", "build"}, exitUsage, "one text or more"},
		"no tokenizer": {[]string{"corpus", "build", short, "--out", out}, exitUsage, "--tokenizer"},
		"no out":       {[]string{"corpus", "build", short, "--tokenizer", "demo"}, exitUsage, "--out"},
		"chunk":        {[]string{"corpus", "build", short, "--tokenizer", "demo", "--out", out, "--chunk", "1"}, exitUsage, "--chunk 1"},
		"rule":         {[]string{"corpus", "build", short, "--tokenizer", "demo", "--out", out, "--bos", "yes"}, exitUsage, `"yes" is not known`},
		"no begin":     {[]string{"corpus", "build", short, "--tokenizer", "demo", "--out", out, "--bos", "each"}, exitBadInput, "names none"},
		"short":        {[]string{"corpus", "build", short, "--tokenizer", "demo", "--out", out}, exitBadInput, "a chunk takes 512"},
		"no folder":    {[]string{"corpus", "build", short, "--tokenizer", "demo", "--chunk", "2", "--out", filepath.Join(out, "gone", "o.json")}, exitEnvironment, "gone"},
		"no file":      {[]string{"corpus", "build", short + "x", "--tokenizer", "demo", "--out", out}, exitBadInput, "short.txtx"},
		"ids":          {[]string{"corpus", "build", ids, "--tokenizer", "demo", "--out", out}, exitBadInput, "ids.ids holds ids, and texts are wanted"},
		"no name":      {[]string{"corpus", "info", "pros", "--tokenizer", "demo"}, exitBadInput, "no embedded corpus (prose, code, multi, math, chat, calib, demo)"},
		"no model":     {[]string{"corpus", "build", short, "--tokenizer", short + "x", "--out", out}, exitBadInput, "short.txtx"},
		"no calib":     {[]string{"corpus", "check", "demo"}, exitUsage, "--calib"},
		"two infos":    {[]string{"corpus", "info", "a", "b"}, exitUsage, "takes one corpus"},
		"begin twice":  {[]string{"corpus", "info", filepath.Join("..", "..", "analysis", "corpus", "testdata", "C36-bos", "tokens.jsonl")}, exitCheckFailed, ""},
	} {
		o := command(t, c.args...)
		if o.code != c.code || !strings.Contains(o.err, c.want) {
			t.Errorf("%s: %d %q %q, want %d %q", name, o.code, o.out, o.err, c.code, c.want)
		}
		if name == "begin twice" && (!strings.Contains(o.out, "begin-twice") || !strings.Contains(o.out, "positions 0 and 1")) {
			t.Errorf("begin twice: %q", o.out)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file is left behind")
	}
}

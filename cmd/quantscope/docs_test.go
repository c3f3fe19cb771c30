package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docs/commands.md is the contract: it names every command, every flag and every
// key of every document.
func TestCommandsAreDocumented(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	named := func(what, kind string) {
		if !strings.Contains(doc, "`"+what+"`") && !strings.Contains(doc, "`"+what+"[]`") {
			t.Errorf("docs/commands.md does not name the %s %s", kind, what)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { named("--"+f.Name, "flag of "+c.CommandPath()) })
		for _, sub := range c.Commands() {
			if !strings.Contains(doc, sub.Name()) {
				t.Errorf("docs/commands.md does not name the command %s", sub.CommandPath())
			}
			walk(sub)
		}
	}
	walk(newRoot(streams{}))

	session := filepath.Join(t.TempDir(), "demo.qscope")
	for _, args := range [][]string{
		{"quantize", "demo", "--variant", "nvfp4", "--session", session}, {"sessions", "info", session}, {"sessions", "list", filepath.Dir(session)},
		{"sessions", "export", session, "--out", session + ".csv"}, {"replay", session}, {"analyze", session, "--html", session + ".html"}, {"inspect", "demo", "--tensors"}, {"inspect", "demo", "--tensor", "lm_head.weight"},
		{"quantize", "demo", "--layout", "gguf", "--variant", "q4_k", "--dry-run", "--allow-fallback"}, {"inspect", filepath.Join("..", "..", "analysis", "candidate", "testdata", "gguf", "glm4_moe_mtp.gguf"), "--tensors"},
		{"plan", "demo", "--recipe", "mixed-nvfp4-fp8", "--write", filepath.Join(t.TempDir(), "r.yaml")}, {"plan", "--list"},
		{"check-pair", "0.05", "0.99549"}, {"check-pair", "0.00905", "0.99549"}, {"lint", filepath.Join(caseDir(t, "C20"), "model.safetensors")}, {session}, {"compare", alignData("awq", "master"), alignData("awq", "awq")},
		{"measure", "demo", "--candidate", "nvfp4,nvfp4+mse", "--keep", "*.layers.1.*", "--attribute", "--probe", "--corpus", "prose", "--chunks", "2", "--cache", "none"},
		{"bench", "--variant", "nvfp4", "--seconds", "0.001", "--read", filepath.Join("..", "..", "quant", "demo", "data", "model")},
	} {
		o := command(t, append(args, "--json")...)
		var v any
		if err := json.Unmarshal([]byte(o.out), &v); err != nil {
			t.Fatalf("%v: %v: %s", args, err, o.err)
		}
		var keys func(v any)
		keys = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				for k, x := range v {
					named(k, "key of "+args[0])
					keys(x)
				}
			case []any:
				for _, x := range v {
					keys(x)
				}
			}
		}
		keys(v)
	}
}

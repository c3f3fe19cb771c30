package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// house is the order of design: a package imports only what stands after it.
var house = []string{"cmd", "tui", "views", "sessions", "analysis", "quant", "kernels"}

// confined names packages of others that only some of ours may import.
var confined = []struct {
	path    string
	allowed []string
}{
	{"github.com/charmbracelet/bubbletea", []string{"tui", "views"}},
	{"github.com/charmbracelet/bubbles", []string{"tui", "views"}},
	{"github.com/charmbracelet/lipgloss", []string{"tui", "views"}},
	{"database/sql", []string{"sessions"}},
	{"modernc.org/sqlite", []string{"sessions"}},
	{"github.com/spf13/cobra", []string{"cmd"}},
}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func floor(importPath string) (name string, level int) {
	rest, ok := strings.CutPrefix(importPath, "quantscope/")
	if !ok {
		return "", -1
	}
	name, _, _ = strings.Cut(rest, "/")
	for i, h := range house {
		if h == name {
			return name, i
		}
	}
	return name, -1
}

func violations(packages []goPackage) []string {
	var out []string
	for _, p := range packages {
		name, level := floor(p.ImportPath)
		if level < 0 {
			out = append(out, p.ImportPath+" stands on no floor of the house")
			continue
		}
		for _, imported := range p.Imports {
			if _, below := floor(imported); below >= 0 && below < level {
				out = append(out, p.ImportPath+" imports "+imported+", which stands above it")
			}
			for _, c := range confined {
				if imported != c.path && !strings.HasPrefix(imported, c.path+"/") {
					continue
				}
				allowed := false
				for _, a := range c.allowed {
					allowed = allowed || a == name
				}
				if !allowed {
					out = append(out, p.ImportPath+" imports "+imported+", which only "+strings.Join(c.allowed, " and ")+" may")
				}
			}
			if imported == "C" {
				out = append(out, p.ImportPath+" uses cgo")
			}
		}
	}
	return out
}

func TestImportsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "quantscope/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) < len(house) {
		t.Fatalf("go list named %d packages, fewer than the house has floors", len(packages))
	}
	for _, v := range violations(packages) {
		t.Error(v)
	}
}

// The rule itself is tested, so that a slip in it does not pass for order.
func TestViolationsAreFound(t *testing.T) {
	for _, bad := range []goPackage{
		{ImportPath: "quantscope/kernels", Imports: []string{"quantscope/sessions"}},
		{ImportPath: "quantscope/quant/checkpoint", Imports: []string{"quantscope/analysis/stats"}},
		{ImportPath: "quantscope/sessions", Imports: []string{"github.com/charmbracelet/bubbletea"}},
		{ImportPath: "quantscope/views", Imports: []string{"database/sql"}},
		{ImportPath: "quantscope/quant/demo", Imports: []string{"modernc.org/sqlite/lib"}},
		{ImportPath: "quantscope/kernels", Imports: []string{"C"}},
		{ImportPath: "quantscope/" + path.Join("util", "x")},
	} {
		if len(violations([]goPackage{bad})) == 0 {
			t.Errorf("%+v passes", bad)
		}
	}
	good := goPackage{ImportPath: "quantscope/quant/method", Imports: []string{"quantscope/kernels", "quantscope/quant/checkpoint", "fmt"}}
	if v := violations([]goPackage{good}); len(v) != 0 {
		t.Errorf("a good package is refused: %v", v)
	}
}

package tui

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"quantscope/sessions"
	"quantscope/views"
)

// narrow is what the message line holds on a screen of 80 columns.
const narrow = 80 - 2

// Every message that the source holds fits a screen of 80 columns, with the
// names of a variant or a projection in it. Messages with a text of any length
// are those that TestLongMessages looks at.
func TestMessagesFit(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	verb := regexp.MustCompile(`%[a-z]`)
	n := 0
	check := func(text string) {
		n++
		text = verb.ReplaceAllString(text, "nvfp4+mse_ge1")
		if w := views.Width(text); w > narrow {
			t.Errorf("%d cells of %d: %q", w, narrow, text)
		}
	}
	literals := func(root ast.Node) {
		ast.Inspect(root, func(node ast.Node) bool {
			if lit, ok := node.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				check(text)
			}
			return true
		})
	}
	visit := func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.FuncDecl:
			if strings.HasPrefix(x.Name.Name, "off") {
				literals(x.Body)
			}
		case *ast.CallExpr:
			if f, ok := x.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "say" {
				literals(x)
			}
		}
		return true
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, visit)
	}
	if n < 50 {
		t.Errorf("only %d messages were found", n)
	}
	for _, s := range screenTable {
		check(s.name + ": " + s.absent)
	}
	for _, x := range views.Metrics() {
		check(x.Name + ": " + x.Help)
	}
	for _, st := range []*sessions.State{{}, demoState(), emptied(demoState())} {
		m := New(newFakeFeed(sessions.Saved, st, st), fixed())
		for _, p := range m.panes {
			for _, k := range p.Keys() {
				check(k.Disabled)
			}
		}
		m.end()
	}
}

// A message with a text of any length keeps both its ends: what it is about and
// the file's name, or the reason at the end of an error.
func TestLongMessages(t *testing.T) {
	long := "/home/somebody/" + strings.Repeat("checkpoints/", 12)
	o := fixed()
	var exportErr error
	o.Export = func(context.Context, string, string, string, bool) error { return exportErr }
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 80, 24)
	d.Press("e", "ctrl+u").Type(long + "run.jsonl").Press("enter").Says("exported JSONL").Says("/run.jsonl")
	exportErr = errors.New(long + "run.jsonl: no space left on device")
	d.Press("e", "enter").Sees("Export the records", "✗ ", "no space left on device").Press("esc")
	exportErr = fmt.Errorf("%srun.jsonl: %w", long, os.ErrExist)
	d.Press("e", "ctrl+u").Type(long+"run.jsonl").Press("enter").Sees("Overwrite?", "run.jsonl is there already")
	d.Press("esc").Press("/").Type(strings.Repeat("layers|", 20) + "x").Press("enter").Says("240 tensors match l").Says("|x")
	d.Press("2").Says("esc clears the filter").Says(": 240 of 240 tensors")
}

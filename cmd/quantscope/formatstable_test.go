package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testFiles is the text of all tests of the repository.
func testFiles(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// Every cell of the table of layouts is a refusal, or names tests that there are.
func TestLayoutsTableNamesTests(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(data), "## What is read, written and converted")
	table, _, ok2 := strings.Cut(rest, "\n## ")
	if !ok || !ok2 {
		t.Fatal("docs/formats.md has no such section")
	}
	tests := testFiles(t)
	name := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 || strings.HasPrefix(strings.TrimSpace(cells[1]), "---") || strings.TrimSpace(cells[1]) == "layout" {
			continue
		}
		rows++
		row := strings.TrimSpace(cells[1])
		for i, column := range []string{"read", "write", "convert"} {
			cell := strings.TrimSpace(cells[2+i])
			found := name.FindAllString(cell, -1)
			if len(found) == 0 && cell != "—" {
				t.Errorf("%s, %s: %q names no test", row, column, cell)
			}
			for _, n := range found {
				if !strings.Contains(tests, "func "+n+"(") {
					t.Errorf("%s, %s: there is no test %s", row, column, n)
				}
			}
		}
		if peer := strings.TrimSpace(cells[5]); peer == "" {
			t.Errorf("%s: verified against nothing", row)
		}
	}
	if rows < 20 {
		t.Errorf("%d rows", rows)
	}
}

package model

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFamiliesAreListed: docs/families.md has a row for every model type that has a
// forward pass, and names no file of this package that is not there.
func TestFamiliesAreListed(t *testing.T) {
	data, err := os.ReadFile("../../docs/families.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(data), "## What there is")
	if !ok {
		t.Fatal("docs/families.md has no table")
	}
	var types []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			types = append(types, cells[1])
		}
	}
	all := strings.Join(types, " ")
	for _, f := range Families() {
		if !strings.Contains(all, "`"+f+"`") {
			t.Errorf("%s has no row", f)
		}
	}
	files := regexp.MustCompile("`([a-z0-9_]+\\.go)`").FindAllStringSubmatch(table, -1)
	if len(files) < 20 {
		t.Fatalf("%d files are named", len(files))
	}
	for _, f := range files {
		if _, err := os.Stat(f[1]); err != nil {
			t.Error(err)
		}
	}
}

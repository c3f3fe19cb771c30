package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPropertyTestsHaveASeed: a package whose tests draw cases at random fixes
// the seed, in its rapid_test.go.
func TestPropertyTestsHaveASeed(t *testing.T) {
	root := filepath.Join("..", "..")
	rapid := `"pgregory.net` + `/rapid"` // in two parts, so that this file does not contain it
	found := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), rapid) {
			return err
		}
		found++
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "rapid_test.go")); err != nil {
			t.Errorf("%s uses rapid, and no rapid_test.go beside it fixes the seed", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 20 {
		t.Errorf("%d files with property tests found, want at least 20", found)
	}
}

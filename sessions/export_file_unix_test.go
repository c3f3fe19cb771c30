//go:build unix

package sessions

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExportTargets: only a regular file is replaced, and a link stays one.
func TestExportTargets(t *testing.T) {
	path, _ := exportSession(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		unix.Mkfifo(in("fifo"), 0o644), os.Mkdir(in("folder"), 0o755), os.Mkdir(in("far"), 0o755), os.WriteFile(in("far/file"), nil, 0o644),
		os.Symlink("far/file", in("link")), os.Symlink("link", in("link2")), os.Symlink("fifo", in("tofifo")), os.Symlink("folder", in("tofolder")),
		os.Symlink(os.DevNull, in("todevice")), os.Symlink("nowhere", in("dangling")),
	); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"fifo": "is not a regular file", "tofifo": "is not a regular file", "todevice": "is not a regular file",
		"folder": "is a folder", "tofolder": "is a folder", "dangling": "is a link to nowhere, which is not there",
	} {
		before, err := os.Lstat(in(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, force := range []bool{false, true} {
			err := ExportFile(t.Context(), path, in(name), "csv", force)
			if err == nil || errors.Is(err, fs.ErrExist) || !strings.HasSuffix(err.Error(), in(name)+": "+says) {
				t.Errorf("%s, force %v: %v", name, force, err)
			}
		}
		if after, err := os.Lstat(in(name)); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was replaced: %v", name, err)
		}
	}

	if err := ExportFile(t.Context(), path, in("link2"), "csv", false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file behind links: %v", err)
	}
	if err := ExportFile(t.Context(), path, in("link2"), "csv", true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "link2"} {
		if info, err := os.Lstat(in(name)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v", name, err)
		}
	}
	if b, err := os.ReadFile(in("far/file")); err != nil || !strings.HasPrefix(string(b), "variant,tensor,") {
		t.Errorf("behind the links: %.20q, %v", b, err)
	}
	if left, err := filepath.Glob(in("*/.*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

package candidate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What has weights of its own is opened without a reference; what is made of one is
// refused, whatever folders there are.
func TestParseAlone(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	dir := exported(t, x.ck, x.top, "", "modelopt", "fp8")
	t.Chdir(filepath.Dir(dir))
	if err := os.Rename(dir, "nvfp4"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"r.yaml", "s.qscope"} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Export: func(context.Context, string) (string, error) { return "./nvfp4", nil }}
	for spec, label := range map[string]string{"demo": "demo", "d=demo": "d", "./nvfp4": "./nvfp4", "s.qscope": "s.qscope", "mine=./nvfp4": "mine"} {
		c, err := ParseAlone(t.Context(), spec, o)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if c.Label != label || c.Kind != Checkpoint {
			t.Errorf("%s is a %s called %s", spec, c.Kind, c.Label)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, spec := range []string{"nvfp4", "a=nvfp4+mse@linear", "r.yaml", "recipe:mixed-nvfp4-fp8"} {
		if _, err := ParseAlone(t.Context(), spec, o); !errors.Is(err, ErrReference) || !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for _, spec := range []string{"", "nvfp5", "ref"} {
		if _, err := ParseAlone(t.Context(), spec, o); !errors.Is(err, ErrSpec) || errors.Is(err, ErrReference) {
			t.Errorf("%q: %v", spec, err)
		}
	}
	for _, spec := range []string{"./absent", "absent.gguf", "absent.qscope"} {
		if _, err := ParseAlone(t.Context(), spec, o); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if _, err := ParseAlone(t.Context(), "s.qscope", Options{}); !errors.Is(err, ErrSpec) {
		t.Errorf("a session without a way to look: %v", err)
	}
}

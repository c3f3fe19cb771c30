package candidate

import (
	"context"
	"path/filepath"
	"testing"

	"quantscope/quant/checkpoint"
)

// A content is another for everything that decides weights, and the same for what
// does not.
func TestContent(t *testing.T) {
	bytes := "1"
	o := Options{Digest: func(_ context.Context, path string) (string, error) { return filepath.Base(path) + bytes, nil }}
	ref, err := Open(t.Context(), "demo", o)
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	made := func(spec string) *Candidate { return mustParse(t, ref, spec, o) }
	must := func(c *Candidate, err error) *Candidate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain, mse := made("nvfp4"), made("nvfp4+mse")
	all := map[string]string{}
	for name, c := range map[string]*Candidate{
		"ref": ref, "nvfp4": plain, "nvfp4+mse": mse, "nvfp4@all": made("nvfp4@all"), "layer 1": made("nvfp4@*layers.1.*"), "layer 2": made("nvfp4@*layers.2.*"),
		"keep 1": must(Keep(ref, plain, "*layers.1.*")), "keep 2": must(Keep(ref, plain, "*layers.2.*")),
		"head": must(WithHead(plain, mse)), "body": must(WithBody(plain, mse)), "only": must(Only(ref, made("nvfp4@all"), "head")),
	} {
		if other, ok := all[c.Content]; ok || c.Content == "" {
			t.Errorf("%s and %s have content %q", name, other, c.Content)
		}
		all[c.Content] = name
	}
	if c := made("x=nvfp4"); c.Content != plain.Content {
		t.Error("a label has made another content")
	}
	bytes = "2"
	if again := must(Open(t.Context(), "demo", o)); again.Content == ref.Content {
		t.Error("other bytes have the same content")
	}
	if c := must(Open(t.Context(), "demo", Options{})); c.Content != "" || mustParse(t, c, "nvfp4", Options{}).Content != "" {
		t.Errorf("content %q without bytes", c.Content)
	}
	o.Digest = func(context.Context, string) (string, error) {
		return "", &checkpoint.FileError{File: "x", Reason: "is gone"}
	}
	if _, err := Open(t.Context(), "demo", o); err == nil {
		t.Error("files that cannot be read have a content")
	}
}

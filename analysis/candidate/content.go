package candidate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
)

// contentOf is the SHA-256 over what decides the weights that are presented of the
// model at path: its files' bytes and its architecture, which configs say. Without
// a way to read the former it is "".
func (c *Candidate) contentOf(ctx context.Context, path string, o Options) (string, error) {
	if o.Digest == nil {
		return "", nil
	}
	files, err := o.Digest(ctx, path)
	if err != nil {
		return "", err
	}
	arch, err := json.Marshal(c.Arch)
	if err != nil {
		return "", fmt.Errorf("candidate: %s: %w", path, err)
	}
	return madeOf([]string{files, c.Identity}, func(w io.Writer) { _, _ = w.Write(arch) }), nil // a hash never fails
}

// madeOf is the SHA-256 over contents and what was made of them, "" where a content
// is not known.
func madeOf(contents []string, made func(io.Writer)) string {
	h := sha256.New()
	for _, c := range contents {
		if c == "" {
			return ""
		}
		fmt.Fprintf(h, "%q\n", c)
	}
	made(h)
	return hex.EncodeToString(h.Sum(nil))
}

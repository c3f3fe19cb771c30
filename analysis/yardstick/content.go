package yardstick

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
)

// A checkpoint's identity is of its headers: two trained from one another have the
// same. Whoever keeps what was computed from weights needs their bytes; what was
// hashed once is not read again while size and time of change stay.

// digestsName is where the folder of a cache keeps digests.
const digestsName = "digests.json"

// maxDigests bounds that file.
const maxDigests = 16 << 20

// fileDigest is the SHA-256 of a file as it was.
type fileDigest struct {
	Size   int64  `json:"size"`
	Time   int64  `json:"time_ns"`
	SHA256 string `json:"sha256"`
}

// Digest is the SHA-256 over the contents of the files of the model at path, and the
// name of the embedded one, which has none. The folder dir, where it is not "",
// remembers what was read.
func Digest(ctx context.Context, dir, path string) (string, error) {
	if path == demo.Label {
		return path, nil
	}
	files, err := modelFiles(path)
	if err != nil {
		return "", err
	}
	store := filepath.Join(dir, digestsName)
	known := map[string]fileDigest{}
	if dir != "" {
		if data, err := readBounded(store, maxDigests); err == nil {
			_ = json.Unmarshal(data, &known) // what cannot be read is computed again
		}
	}
	all := sha256.New()
	changed := false
	for _, f := range files {
		d, fresh, err := digestFile(ctx, f, known)
		if err != nil {
			return "", err
		}
		changed = changed || fresh
		fmt.Fprintf(all, "%q %d %s\n", filepath.Base(f), d.Size, d.SHA256)
	}
	if changed && dir != "" {
		data, err := json.Marshal(known)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrCache, err)
		}
		if os.MkdirAll(dir, 0o777) == nil {
			_ = checkpoint.AtomicWriteFile(store, data) // else the next run reads them again
		}
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// modelFiles are the files that hold a model's weights.
func modelFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, checkpoint.SystemError(path, err)
	}
	pattern := path
	if info.IsDir() {
		pattern = filepath.Join(escape(path), "*.safetensors")
	} else if head, _, ok := strings.Cut(filepath.Base(path), "-00001-of-"); ok { // a split GGUF
		pattern = filepath.Join(escape(filepath.Dir(path)), escape(head)+"-*-of-*"+filepath.Ext(path))
	} else {
		return []string{path}, nil
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	slices.Sort(files)
	return files, nil
}

// escape takes their meaning from a path's characters that mean something in a
// pattern.
func escape(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}

// digestFile is a file's digest, from what is known where it has not changed.
func digestFile(ctx context.Context, path string, known map[string]fileDigest) (d fileDigest, fresh bool, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return d, false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return d, false, checkpoint.SystemError(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return d, false, checkpoint.SystemError(path, err)
	}
	if d, ok := known[abs]; ok && d.Size == info.Size() && d.Time == info.ModTime().UnixNano() {
		return d, false, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, cancelled{ctx, f}); err != nil {
		if ctx.Err() != nil {
			return d, false, ctx.Err()
		}
		return d, false, checkpoint.SystemError(path, err)
	}
	d = fileDigest{Size: info.Size(), Time: info.ModTime().UnixNano(), SHA256: hex.EncodeToString(h.Sum(nil))}
	known[abs] = d
	return d, true, nil
}

// cancelled is a reader that ends with its context.
type cancelled struct {
	ctx context.Context
	io.Reader
}

func (r cancelled) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

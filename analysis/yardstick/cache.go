package yardstick

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
)

// The cache keeps the reference's final hidden states, one file a chunk, so that a
// second measurement costs only the candidates. A file is
//
//	+----------+------------+-------------+----------------------+---------+
//	| QSHIDDEN | u32 length | JSON header | f32 [tokens][hidden] | SHA-256 |
//	+----------+------------+-------------+----------------------+---------+
//
// little-endian; the sum is over all before it. The header is everything that
// decides the states, and the file's name is the sum of the header, so another
// checkpoint's states are never met unless a file was renamed; they are refused
// then.
const (
	cacheMagic   = "QSHIDDEN"
	cacheSuffix  = ".qhid"
	maxCacheHead = 1 << 16
	// defaultCache bounds the folder where nothing else is said.
	defaultCache = 4 << 30
	// arithmetic is raised when the forward pass gives other bits for the same weights.
	arithmetic = 2
)

// cacheKey is everything that decides a chunk's hidden states.
type cacheKey struct {
	Identity     string `json:"identity"` // of the checkpoint's headers
	Content      string `json:"content"`  // SHA-256 of its files' bytes
	Architecture string `json:"architecture"`
	Tokens       string `json:"tokens"` // SHA-256 of the chunk's ids as little-endian int32
	Count        int    `json:"count"`
	Hidden       int    `json:"hidden"`
	Activations  string `json:"activations"`
	Arithmetic   int    `json:"arithmetic"`
}

// hiddenCache is the folder; nil keeps nothing.
type hiddenCache struct {
	m     *measurement
	dir   string
	limit int64
	key   cacheKey // of the reference, without a chunk
	full  bool     // nothing more can be written
}

// openCache makes the folder and identifies the reference's bytes.
func openCache(ctx context.Context, m *measurement) (*hiddenCache, error) {
	if m.o.Cache == "" || m.base != nil {
		return nil, nil
	}
	c := &hiddenCache{m: m, dir: m.o.Cache, limit: m.o.CacheBytes}
	if c.limit <= 0 {
		c.limit = defaultCache
	}
	if err := os.MkdirAll(c.dir, 0o777); err != nil {
		m.o.warn("%v: the reference's hidden states are not kept", checkpoint.SystemError(c.dir, err))
		return nil, nil
	}
	ref := m.parties[0].own
	content := ""
	if ref.Path != "" && ref.Path != demo.Label {
		var err error
		if content, err = Digest(ctx, c.dir, ref.Path); err != nil {
			return nil, err
		}
	}
	if ref.Identity == "" && content == "" {
		m.o.warn("the reference has no identity, so its hidden states are not kept")
		return nil, nil
	}
	architecture, err := json.Marshal(ref.Arch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCache, err)
	}
	sum := sha256.Sum256(architecture)
	c.key = cacheKey{
		Identity: ref.Identity, Content: content, Architecture: hex.EncodeToString(sum[:]), Hidden: ref.Arch.Width(),
		Activations: activations(m.o.BF16), Arithmetic: arithmetic,
	}
	return c, nil
}

// of is the key of a chunk, its header and the file that is named for it.
func (c *hiddenCache) of(ids []int32) (key cacheKey, head []byte, path string, err error) {
	key = c.key
	h := sha256.New()
	var b [4]byte
	for _, id := range ids {
		binary.LittleEndian.PutUint32(b[:], uint32(id))
		_, _ = h.Write(b[:]) // a hash never fails
	}
	key.Tokens, key.Count = hex.EncodeToString(h.Sum(nil)), len(ids)
	head, err = json.Marshal(key)
	if err != nil {
		return key, nil, "", fmt.Errorf("%w: %w", ErrCache, err)
	}
	sum := sha256.Sum256(head)
	return key, head, filepath.Join(c.dir, hex.EncodeToString(sum[:16])+cacheSuffix), nil
}

// load reads the hidden states of all chunks of a group, nil where one is missing.
// A damaged file is passed over with a word; one of another checkpoint is an error.
func (c *hiddenCache) load(g []chunkAt) ([]float32, error) {
	if c == nil {
		return nil, nil
	}
	var out []float32
	for _, at := range g {
		key, head, path, err := c.of(at.ids)
		if err != nil {
			return nil, err
		}
		x, err := readStates(path, key, head)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case errors.Is(err, ErrCache):
			return nil, err
		case err != nil:
			c.m.o.warn("%v; its hidden states are computed again", err)
			return nil, nil
		}
		now := time.Now()
		_ = os.Chtimes(path, now, now) // only the order of removal
		out = append(out, x...)
	}
	return out, nil
}

// readStates reads a file and holds it against its key. An error that wraps
// ErrCache says that it is of something else, any other that it cannot be used.
func readStates(path string, key cacheKey, head []byte) ([]float32, error) {
	data, err := readBounded(path, int64(len(cacheMagic)+4+maxCacheHead)+4*int64(key.Count)*int64(key.Hidden)+sha256.Size)
	if err != nil {
		return nil, err
	}
	bad := func(reason string) error { return &checkpoint.FileError{File: path, Reason: reason} }
	fixed := len(cacheMagic) + 4
	if len(data) < fixed+sha256.Size || string(data[:len(cacheMagic)]) != cacheMagic {
		return nil, bad("is no file of hidden states")
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, bad("is damaged: its bytes have another SHA-256 than it says")
	}
	n := int64(binary.LittleEndian.Uint32(body[len(cacheMagic):]))
	if n > int64(len(body)-fixed) {
		return nil, bad("ends in its header")
	}
	own := body[fixed : fixed+int(n)]
	if !bytes.Equal(own, head) {
		return nil, &checkpoint.FileError{File: path, Reason: otherStates(own, key), Err: ErrCache}
	}
	body = body[fixed+int(n):]
	if int64(len(body)) != 4*int64(key.Count)*int64(key.Hidden) {
		return nil, bad(fmt.Sprintf("holds %d bytes where %d tokens of %d channels are expected", len(body), key.Count, key.Hidden))
	}
	x := make([]float32, len(body)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return x, nil
}

// otherStates says what a file holds that is not what its name says.
func otherStates(head []byte, want cacheKey) string {
	var got cacheKey
	if err := json.Unmarshal(head, &got); err != nil {
		return "has a header that cannot be read"
	}
	for _, f := range []struct {
		what      string
		got, want string
	}{
		{"checkpoint", got.Identity, want.Identity}, {"checkpoint with content", got.Content, want.Content},
		{"architecture", got.Architecture, want.Architecture}, {"text", got.Tokens, want.Tokens},
		{"activations", got.Activations, want.Activations},
	} {
		if f.got != f.want {
			return fmt.Sprintf("holds hidden states of %s %.16s, not of %.16s", f.what, f.got, f.want)
		}
	}
	return fmt.Sprintf("holds hidden states of arithmetic %d, not of %d", got.Arithmetic, want.Arithmetic)
}

// readBounded reads a file that may have no more than so many bytes.
func readBounded(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, &checkpoint.FileError{File: path, Reason: fmt.Sprintf("has %d bytes; at most %d are expected", info.Size(), most)}
	}
	return os.ReadFile(path)
}

// keep stores a group's hidden states. A folder that cannot be written to is told
// of once: the measurement needs none.
func (c *hiddenCache) keep(g []chunkAt, x []float32) {
	if c == nil || c.full {
		return
	}
	if err := c.store(g, x); err != nil {
		c.full = true
		c.m.o.warn("%v: the reference's hidden states are not kept", err)
	}
}

func (c *hiddenCache) store(g []chunkAt, x []float32) error {
	at := 0
	for _, chunk := range g {
		n := len(chunk.ids) * c.key.Hidden
		_, head, path, err := c.of(chunk.ids)
		if err != nil {
			return err
		}
		data := append([]byte(nil), cacheMagic...)
		data = binary.LittleEndian.AppendUint32(data, uint32(len(head)))
		data = append(data, head...)
		data = slices.Grow(data, 4*n+sha256.Size)
		for _, v := range x[at : at+n] {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		sum := sha256.Sum256(data)
		if err := checkpoint.AtomicWriteFile(path, append(data, sum[:]...)); err != nil {
			return err
		}
		at += n
	}
	return c.trim()
}

// trim removes the files that were used longest ago until the folder is within its
// bound.
func (c *hiddenCache) trim() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return checkpoint.SystemError(c.dir, err)
	}
	var files []fs.FileInfo
	var sum int64
	for _, e := range entries {
		if filepath.Ext(e.Name()) != cacheSuffix {
			continue
		}
		info, err := e.Info()
		if err != nil { // removed by another run
			continue
		}
		files = append(files, info)
		sum += info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if sum <= c.limit {
			return nil
		}
		if err := os.Remove(filepath.Join(c.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return checkpoint.SystemError(filepath.Join(c.dir, f.Name()), err)
		}
		sum -= f.Size()
	}
	return nil
}

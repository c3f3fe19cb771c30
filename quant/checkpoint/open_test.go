package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// names is what a checkpoint holds, as file/tensor, in order.
func names(c *Checkpoint) string {
	var b strings.Builder
	for _, t := range c.Tensors {
		fmt.Fprintf(&b, "%s/%s ", c.Files[t.File].Name, t.Name)
	}
	return strings.TrimSpace(b.String())
}

func TestOpenTakes(t *testing.T) {
	const index = "model.safetensors.index.json"
	two := `{"weight_map":{"b":"2.safetensors","a":"1.safetensors"}}`
	for _, c := range []struct {
		name     string
		files    map[string]string
		path     string // in the folder
		want     string
		findings []string // file and a part of the message
	}{
		{"one file", map[string]string{"model.safetensors": vector("a")}, "", "model.safetensors/a", nil},
		{"one file of another name", map[string]string{"x.safetensors": vector("a"), "README.md": ""}, "", "x.safetensors/a", nil},
		{"that file itself", map[string]string{"x.safetensors": vector("a"), "y.safetensors": vector("b")}, "x.safetensors", "x.safetensors/a", nil},
		{"several files", map[string]string{"x.safetensors": vector("b"), "y.safetensors": vector("a")}, "", "x.safetensors/b y.safetensors/a", []string{"x.safetensors: 2 .safetensors files and no index"}},
		{"model and others", map[string]string{"model.safetensors": vector("a"), "adapter.safetensors": vector("a")}, "", "model.safetensors/a", []string{"adapter.safetensors: beside model.safetensors"}},
		{"index", map[string]string{index: two, "1.safetensors": vector("a"), "2.safetensors": vector("b")}, "", "1.safetensors/a 2.safetensors/b", nil},
		{"index itself", map[string]string{index: two, "1.safetensors": vector("a"), "2.safetensors": vector("b"), "3.safetensors": vector("a")}, index, "1.safetensors/a 2.safetensors/b", nil},
		{"index and others", map[string]string{index: two, "1.safetensors": vector("a"), "2.safetensors": vector("b"), "model.safetensors": vector("a")}, "", "1.safetensors/a 2.safetensors/b", []string{"model.safetensors: not named by the index"}},
		{"index of another name", map[string]string{"q" + indexSuffix: two, "1.safetensors": vector("a"), "2.safetensors": vector("b")}, "", "1.safetensors/a 2.safetensors/b", nil},
		{"shard in a folder", map[string]string{index: `{"weight_map":{"a":"sub/1.safetensors"}}`, "sub/1.safetensors": vector("a")}, "", "sub/1.safetensors/a", nil},
		{"right total", map[string]string{index: `{"metadata":{"total_size":4},"weight_map":{"a":"1.safetensors"}}`, "1.safetensors": vector("a")}, "", "1.safetensors/a", nil},
		{"right total as a float", map[string]string{index: `{"metadata":{"total_size":4.0},"weight_map":{"a":"1.safetensors"}}`, "1.safetensors": vector("a")}, "", "1.safetensors/a", nil},
		{"wrong total", map[string]string{index: `{"metadata":{"total_size":5},"weight_map":{"a":"1.safetensors"}}`, "1.safetensors": vector("a")}, "", "1.safetensors/a", []string{index + ": metadata.total_size is 5, the tensors have 4 bytes"}},
		{"temporary file", map[string]string{"model.safetensors": vector("a"), ".model.safetensors.0123.tmp": "half"}, "", "model.safetensors/a", nil},
		{"folder with such a name", map[string]string{"model.safetensors": vector("a"), "old.safetensors/x": ""}, "", "model.safetensors/a", nil},
		{"all parts, no index", map[string]string{"m-00001-of-00002.safetensors": vector("a"), "m-00002-of-00002.safetensors": vector("b")}, "", "m-00001-of-00002.safetensors/a m-00002-of-00002.safetensors/b", []string{"m-00001-of-00002.safetensors: 2 .safetensors files"}},
		{"one part, named", map[string]string{"m-00001-of-00002.safetensors": vector("a")}, "m-00001-of-00002.safetensors", "m-00001-of-00002.safetensors/a", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ck := mustOpen(t, filepath.Join(writeFiles(t, c.files), c.path))
			if got := names(ck); got != c.want {
				t.Errorf("holds %s, want %s", got, c.want)
			}
			if len(ck.Findings) != len(c.findings) {
				t.Fatalf("findings %v, want %q", ck.Findings, c.findings)
			}
			for i, f := range ck.Findings {
				if got := f.File + ": " + f.Message; !strings.HasPrefix(got, c.findings[i]) {
					t.Errorf("finding %q, want %q", got, c.findings[i])
				}
			}
		})
	}
}

func TestOpenRefused(t *testing.T) {
	const index = "model.safetensors.index.json"
	with := func(ix string, more ...string) map[string]string {
		files := map[string]string{index: ix, "1.safetensors": vector("a")}
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		path  string
		want  []string
	}{
		{"nothing", nil, "", []string{"no .safetensors file"}},
		{"no such path", nil, "absent", []string{"absent", "no such file"}},
		{"another kind", map[string]string{"pytorch_model.bin": "", "config.json": "{}"}, "", []string{"no .safetensors file", `"pytorch_model.bin"`}},
		{"GGUF", map[string]string{"m.gguf": "GGUF\x03\x00\x00\x00"}, "m.gguf", []string{"m.gguf", "GGUF", "inspect, lint, compare, measure"}},
		{"unknown file", map[string]string{"m.dat": "x"}, "m.dat", []string{"m.dat", "no checkpoint"}},
		{"GGUF in disguise", map[string]string{"m.safetensors": "GGUF\x03\x00\x00\x00"}, "", []string{"m.safetensors", "GGUF"}},
		{"web page", map[string]string{"m.safetensors": "<!DOCTYPE html><html>"}, "", []string{"m.safetensors", "web page"}},
		{"zip", map[string]string{"m.safetensors": "PK\x03\x04......"}, "", []string{"m.safetensors", "zip"}},
		{"annex pointer", map[string]string{"m.safetensors": "/annex/objects/SHA256E-s12--ab\n"}, "", []string{"m.safetensors", "pointer"}},
		{"text", map[string]string{"m.safetensors": "Entry not found"}, "", []string{"m.safetensors", "not a safetensors file", `"Entry no"`}},
		{"empty file", map[string]string{"m.safetensors": ""}, "", []string{"m.safetensors", "too short", "0 bytes"}},
		{"header length at the limit", map[string]string{"m.safetensors": "\x00\xe1\xf5\x05\x00\x00\x00\x00{}"}, "", []string{"truncated in its header", "100000000", "10 bytes"}},
		{"header length over the limit", map[string]string{"m.safetensors": "\x01\xe1\xf5\x05\x00\x00\x00\x00{}"}, "", []string{"header length 100000001 is over the limit of 100000000"}},
		{"cut in the header", map[string]string{"m.safetensors": vector("a")[:20]}, "", []string{"m.safetensors", "truncated in its header", "20 bytes"}},
		{"name in two files", map[string]string{"x.safetensors": vector("a"), "y.safetensors": vector("a")}, "", []string{"y.safetensors", `"a"`, "duplicate", `"x.safetensors"`}},
		{"parts missing", map[string]string{"m-00002-of-00003.safetensors": vector("a")}, "", []string{"2 of 3 shards are missing", `"m-00002-of-00003.safetensors"`}},
		{"parts missing of an export", map[string]string{"m-00002-of-00003.safetensors": vector("a"), UnfinishedPrefix + ".json": "{}"}, "", []string{"2 of 3 shards are missing", "incomplete-export.json", "not finished"}},
		{"an export without a shard", map[string]string{UnfinishedPrefix + ".json": "{}"}, "", []string{"no .safetensors file", "incomplete-export.json", "not finished"}},
		{"two indexes", map[string]string{"a" + indexSuffix: "", "b" + indexSuffix: ""}, "", []string{"2 indexes", "a" + indexSuffix}},
		{"index cut", with(`{"weight_map":{"a":`), "", []string{index, `"a"`, "found the end of the text at byte 19"}},
		{"index is a pointer", with("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"), "", []string{index, "pointer", "stand for 5"}},
		{"index without a map", with(`{"metadata":{}}`), "", []string{index, "no weight_map"}},
		{"index of nothing", with(`{"weight_map":{}}`), "", []string{index, "no weight_map"}},
		{"index of numbers", with(`{"weight_map":{"a":1}}`), "", []string{index, `"a"`, "no shard name"}},
		{"tensor twice in the index", with(`{"weight_map":{"a":"1.safetensors","a":"1.safetensors"}}`), "", []string{index, `"a"`, "duplicate"}},
		{"map twice in the index", with(`{"weight_map":{},"weight_map":{}}`), "", []string{index, "duplicate", "weight_map"}},
		{"metadata twice in the index", with(`{"metadata":{},"metadata":{}}`), "", []string{index, "duplicate", "metadata"}},
		{"total twice in the index", with(`{"metadata":{"total_size":1,"total_size":1}}`), "", []string{index, "duplicate", "total_size"}},
		{"out of the folder", with(`{"weight_map":{"a":"../1.safetensors"}}`), "", []string{index, `"a"`, `"../1.safetensors"`, "leads out"}},
		{"out by a detour", with(`{"weight_map":{"a":"x/../../1.safetensors"}}`), "", []string{index, "leads out"}},
		{"absolute", with(`{"weight_map":{"a":"/etc/passwd"}}`), "", []string{index, "leads out"}},
		{"drive", with(`{"weight_map":{"a":"C:\\1.safetensors"}}`), "", []string{index, "leads out"}},
		{"no shard name", with(`{"weight_map":{"a":""}}`), "", []string{index, "leads out"}},
		{"shard missing", with(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}}`), "", []string{index, `"2.safetensors"`, "2 of 3 tensors", "missing"}},
		{"two shards missing", with(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"3.safetensors","d":"3.safetensors"}}`), "", []string{index, `"2.safetensors"`, "1 of 4 tensors", "1 more", "3 tensors in all"}},
		{"shard is a folder", with(`{"weight_map":{"a":"d"}}`, "d/x", ""), "", []string{"d", "not a regular file"}},
		{"tensor not in its shard", with(`{"weight_map":{"a":"1.safetensors","b":"1.safetensors","c":"1.safetensors"}}`), "", []string{index, `"b"`, `"1.safetensors"`, "missing", "1 more"}},
		{"tensor in another shard", with(`{"weight_map":{"a":"2.safetensors","b":"1.safetensors"}}`, "2.safetensors", vector("b")), "", []string{index, `"a"`, `"2.safetensors"`, `"1.safetensors"`}},
		{"broken config", map[string]string{"model.safetensors": vector("a"), "config.json": `{"a":}`}, "", []string{"config.json", "not valid JSON", "byte 5"}},
		{"config is a list", map[string]string{"model.safetensors": vector("a"), "config.json": `[]`}, "", []string{"config.json", "want '{'"}},
		{"config is a pointer", map[string]string{"model.safetensors": vector("a"), "config.json": "version https://git-lfs.github.com/spec/v1\n"}, "", []string{"config.json", "pointer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeFiles(t, c.files)
			ck, err := Open(filepath.Join(dir, c.path))
			if err == nil {
				t.Fatalf("opened with %s", names(ck))
			}
			wantError(t, err, append(c.want, "checkpoint: "+dir)...)
			var fe *FileError
			if !errors.As(err, &fe) {
				t.Errorf("%T is no FileError", err)
			}
		})
	}
}

// Files of a hub cache are links into another folder; a link without a target
// is named as such.
func TestOpenFollowsLinks(t *testing.T) {
	blobs := writeFiles(t, map[string]string{"0a": vector("a"), "0b": `{"weight_map":{"a":"model-00001-of-00001.safetensors"}}`, "0c": `{"hidden_size":1}`})
	dir := t.TempDir()
	for name, blob := range map[string]string{"model-00001-of-00001.safetensors": "0a", "model.safetensors.index.json": "0b", "config.json": "0c"} {
		if err := os.Symlink(filepath.Join(blobs, blob), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(dir, "model-00001-of-00001.safetensors")
	for _, path := range []string{dir, link, shard, filepath.Join(dir, "model.safetensors.index.json")} {
		c := mustOpen(t, path)
		if names(c) != "model-00001-of-00001.safetensors/a" || string(c.Config) != `{"hidden_size":1}` {
			t.Errorf("%s: holds %s, config %s", path, names(c), c.Config)
		}
	}
	if err := os.Remove(filepath.Join(blobs, "0a")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, shard} {
		_, err := Open(path)
		wantError(t, err, "model-00001-of-00001.safetensors", "missing")
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v is not fs.ErrNotExist", err)
		}
	}
}

// A header may be as long as 100,000,000 bytes, but memory is asked for as the
// file turns out to have them.
func TestOpenLyingSize(t *testing.T) {
	head := binary.LittleEndian.AppendUint64(nil, 99_000_000)
	file := lyingFile{string(append(head, `{"a":`...)), 200_000_000}
	fsys := lyingFS{fstest.MapFS{"model.safetensors": {Data: []byte("x")}}, file}
	var err error
	n := allocated(func() { _, err = OpenFS("lie", fsys) })
	wantError(t, err, "lie/model.safetensors", "512 of 99000008 bytes of the header")
	if limit := uint64(4 * firstRead); n > limit {
		t.Errorf("%d bytes allocated, want at most %d", n, limit)
	}
}

// lyingFS says of its one file that it is larger than it is.
type lyingFS struct {
	fstest.MapFS
	file lyingFile
}

type lyingFile struct {
	text string
	size int64
}

func (f lyingFS) Open(name string) (fs.File, error) {
	inner, err := f.MapFS.Open(name)
	if err != nil || name == "." {
		return inner, err
	}
	return &lyingHandle{inner, strings.NewReader(f.file.text), f.file.size}, nil
}

func (f lyingFS) Stat(name string) (fs.FileInfo, error) {
	inner, err := f.MapFS.Stat(name)
	return lyingInfo{inner, f.file.size}, err
}

type lyingHandle struct {
	fs.File
	*strings.Reader
	size int64
}

func (h *lyingHandle) Read(p []byte) (int, error) { return h.Reader.Read(p) }

func (h *lyingHandle) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.Reader.ReadAt(p, off)
	if off == 0 && n < len(p) { // padded once, so that the header length is believed
		return len(p), nil
	}
	return n, err
}

func (h *lyingHandle) Stat() (fs.FileInfo, error) {
	inner, err := h.File.Stat()
	return lyingInfo{inner, h.size}, err
}

type lyingInfo struct {
	fs.FileInfo
	size int64
}

func (i lyingInfo) Size() int64 { return i.size }

func TestOpenFS(t *testing.T) {
	fsys := fstest.MapFS{
		"model.safetensors.index.json": {Data: []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`)},
		"1.safetensors":                {Data: []byte(vector("a"))},
		"2.safetensors":                {Data: []byte(vector("b"))},
		"tokenizer.json":               {Data: []byte(`{"t":1}`)},
	}
	c, err := OpenFS("label", fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Path != "label" || names(c) != "1.safetensors/a 2.safetensors/b" || c.Bytes() != 8 {
		t.Errorf("%s holds %s, %d bytes", c.Path, names(c), c.Bytes())
	}
	b, _ := c.Lookup("b")
	raw := make([]byte, 2)
	if err := c.ReadAt(context.Background(), b, 1, raw); err != nil || raw[0] != 1 || raw[1] != 2 {
		t.Errorf("bytes %v, %v; want 1 and 2", raw, err)
	}
	delete(fsys, "2.safetensors")
	_, err = OpenFS("label", fsys)
	wantError(t, err, "label/model.safetensors.index.json", `"2.safetensors"`, "1 of 2 tensors")
}

// Small files have a limit too.
func TestReadSmall(t *testing.T) {
	dir := writeFiles(t, map[string]string{"config.json": "12345"})
	src := source{folder(dir), dir}
	if text, err := src.readSmall("config.json", 5); err != nil || string(text) != "12345" {
		t.Errorf("%q, %v", text, err)
	}
	_, err := src.readSmall("config.json", 4)
	wantError(t, err, filepath.Join(dir, "config.json"), "too large: 5 bytes, at most 4")
}

func TestSideFiles(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"model.safetensors": vector("a"), "config.json": `{"limit":[0.0, Infinity],"name":"NaN","x":-Infinity,"y":NaN}`,
		"tokenizer.json": "{}", "tokenizer_config.json": "{ }", "chat_template.jinja": "{{ x }}", "preprocessor_config.json": "{}",
		"generation_config.json": "{}", "merges.txt": "a b", "notes.txt": "no", "README.md": "no",
	})
	if err := os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "vocab.json")); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, dir)
	var got []string
	for _, f := range c.Side {
		text, err := f.Read()
		if err != nil || int64(len(text)) != f.Size {
			t.Errorf("%s: %d bytes, %v; want %d", f.Name, len(text), err, f.Size)
		}
		got = append(got, f.Name)
	}
	if want := "chat_template.jinja generation_config.json merges.txt preprocessor_config.json tokenizer.json tokenizer_config.json"; strings.Join(got, " ") != want {
		t.Errorf("side files %s\nwant %s", got, want)
	}
	if f, ok := c.SideFile("merges.txt"); !ok || f.Size != 3 {
		t.Errorf("merges.txt: %v of %d bytes", ok, f.Size)
	}
	if len(c.Findings) != 1 || c.Findings[0].File != "vocab.json" || !strings.Contains(c.Findings[0].Message, "gone") {
		t.Errorf("findings %v, want one about vocab.json", c.Findings)
	}
	if want := `{"limit":[0.0, null],"name":"NaN","x":null,"y":null}`; string(c.ConfigJSON()) != want {
		t.Errorf("config for encoding/json is %s, want %s", c.ConfigJSON(), want)
	}
}

// The identity is that of the headers: it moves with the folder and changes
// with any of name, size and header.
func TestIdentity(t *testing.T) {
	files := map[string]string{"x.safetensors": vector("b"), "y.safetensors": vector("a")}
	first := mustOpen(t, writeFiles(t, files)).Identity()
	if again := mustOpen(t, writeFiles(t, files)).Identity(); again != first {
		t.Errorf("in another folder %s, was %s", again, first)
	}
	seen := map[Identity]string{first: "the first"}
	for what, files := range map[string]map[string]string{
		"another name":   {"x.safetensors": vector("b"), "z.safetensors": vector("a")},
		"another header": {"x.safetensors": vector("b"), "y.safetensors": vector("c")},
		"swapped":        {"x.safetensors": vector("a"), "y.safetensors": vector("b")},
		"one less":       {"x.safetensors": vector("b")},
	} {
		id := mustOpen(t, writeFiles(t, files)).Identity()
		if other, ok := seen[id]; ok {
			t.Errorf("%s has the identity of %s", what, other)
		}
		seen[id] = what
	}
	text := fmt.Sprintf("quantscope checkpoint 1\n\"x.safetensors\" %d %x\n\"y.safetensors\" %d %x\n",
		len(vector("b")), sha256.Sum256([]byte(vector("b")[:len(vector("b"))-4])), len(vector("a")), sha256.Sum256([]byte(vector("a")[:len(vector("a"))-4])))
	if want := Identity(sha256.Sum256([]byte(text))); first != want {
		t.Errorf("identity %s, want %s", first, want)
	}
}

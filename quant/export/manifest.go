package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/zeebo/xxh3"

	"quantscope/quant/checkpoint"
)

// The files that mark a folder as unfinished.
const (
	planName   = checkpoint.UnfinishedPrefix + ".json"        // the plan, as long as anything is missing
	joinedName = checkpoint.UnfinishedPrefix + "-joined.json" // the plan, when only the marks are left to be removed
	partMarks  = checkpoint.UnfinishedPrefix + "-part-*.json"
)

// partName is the file in which a part keeps what it has finished.
func partName(part, of int) string {
	return checkpoint.UnfinishedPrefix + "-" + partTag(part, of) + ".json"
}

// planFile is the plan as the unfinished folder keeps it: enough to finish from
// shards that are whole. Its SHA-256 is the plan's digest.
type planFile struct {
	Version    int         `json:"quantscope_export"`
	Source     string      `json:"source"` // the checkpoint's identity
	Layout     string      `json:"layout"`
	Variant    string      `json:"variant"`
	Format     string      `json:"format"`
	Convention string      `json:"convention"`
	Method     string      `json:"method"`
	Globals    string      `json:"global_scale"`
	Recipe     string      `json:"recipe_sha256,omitempty"`
	Patches    string      `json:"patches_sha256,omitempty"`
	Shards     []planShard `json:"shards"`
	Texts      []planText  `json:"texts"`
	Side       []planSide  `json:"side"`
}

type planShard struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Header string `json:"header_xxh3"`
}

type planText struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type planSide struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// partFile is what a part has finished.
type partFile struct {
	Plan   string      `json:"plan"` // digest
	Part   int         `json:"part"`
	Of     int         `json:"of"`
	Done   bool        `json:"done"` // all its shards and the side files are whole
	Shards []partShard `json:"shards"`
}

type partShard struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Sum   string `json:"xxh3"`
}

const planVersion = 1

// encode is the text of the plan's file.
func (p *Plan) encode() ([]byte, error) { return marshal(p.file()) }

// file is what the plan's file says.
func (p *Plan) file() planFile {
	f := planFile{
		Version: planVersion, Source: p.ck.Identity().String(), Layout: p.Layout, Variant: p.Variant,
		Format: each(p.stores, func(s *stored) string { return s.spec.Format }), Convention: each(p.stores, func(s *stored) string { return s.spec.Convention.String() }),
		Method: each(p.stores, func(s *stored) string { return s.spec.Method }), Globals: p.Globals.String(), Recipe: p.recipe.SHA256, Patches: p.patchSum,
		Shards: make([]planShard, len(p.Shards)), Texts: make([]planText, len(p.Texts)), Side: make([]planSide, len(p.Side)),
	}
	for i := range p.Shards {
		f.Shards[i] = planShard{p.Shards[i].Name, p.Shards[i].Size, sumText(xxh3.Hash(p.Shards[i].Header))}
	}
	for i, t := range p.Texts {
		f.Texts[i] = planText{t.Name, string(t.Data)}
	}
	for i, s := range p.Side {
		f.Side[i] = planSide{s.Name, s.Size}
	}
	return f
}

// each is something of every store, in their order.
func each(stores []stored, of func(*stored) string) string {
	out := make([]string, len(stores))
	for i := range stores {
		out[i] = of(&stores[i])
	}
	return strings.Join(out, ", ")
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func sumText(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// decodePlan reads the plan's file.
func decodePlan(text []byte) (planFile, error) {
	var f planFile
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("is no plan of an export: %w", err)
	}
	if f.Version != planVersion {
		return f, fmt.Errorf("is version %d of an export's plan, this program knows %d", f.Version, planVersion)
	}
	var names []string
	for _, s := range f.Shards {
		names = append(names, s.Name)
	}
	for _, t := range f.Texts {
		names = append(names, t.Name)
	}
	for _, s := range f.Side {
		names = append(names, s.Name)
	}
	for _, name := range names {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return f, fmt.Errorf("names a file %q outside the folder", name)
		}
	}
	return f, nil
}

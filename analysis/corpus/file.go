package corpus

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// Format names the files that Encode writes; Version is the newest that is read.
const (
	Format  = "quantscope-corpus"
	Version = 1
)

// header is a corpus file without its ids, which follow under "ids".
type header struct {
	Format    string `json:"format"`
	Version   int    `json:"version"`
	Name      string `json:"name"`
	SHA256    string `json:"sha256"`
	Tokenizer string `json:"tokenizer"`
	Behaviour string `json:"tokenizer_behaviour"`
	BOS       string `json:"bos"`
	Begin     *int32 `json:"begin"`
	Chunking  string `json:"chunking"`
	Chunks    int    `json:"chunks"`
	Tokens    int64  `json:"tokens"`
	Positions int64  `json:"positions"`
	LeftOver  int    `json:"left_over"`
	Calib     bool   `json:"calibration"`
	Texts     []Text `json:"texts"`
}

// Encode is the corpus as a file: JSON, the ids a chunk a line.
func (c *Corpus) Encode() ([]byte, error) {
	h := header{
		Format: Format, Version: Version, Name: c.Name, SHA256: hex.EncodeToString(c.SHA256[:]), Tokenizer: c.Tokenizer, Behaviour: c.Behaviour,
		BOS: c.BOS, Chunking: c.Chunking, Chunks: len(c.Chunks), Tokens: c.Tokens(), Positions: c.Positions(), LeftOver: c.LeftOver,
		Calib: c.Calib, Texts: c.Texts,
	}
	if c.Begin >= 0 {
		h.Begin = &c.Begin
	}
	if h.Texts == nil {
		h.Texts = []Text{}
	}
	head, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	out := append(bytes.TrimSuffix(head, []byte("\n}")), ",\n \"ids\": [\n"...)
	for i, k := range c.Chunks {
		out = append(out, '[')
		for j, id := range k {
			if j > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, int64(id), 10)
		}
		out = append(out, ']')
		if i < len(c.Chunks)-1 {
			out = append(out, ',')
		}
		out = append(out, '\n')
	}
	return append(out, "]}\n"...), nil
}

// Decode reads a corpus file and holds every figure in it against the ids. source
// names it in errors.
func Decode(source string, data []byte) (*Corpus, error) { return decode(source, data, Options{}) }

func decode(source string, data []byte, o Options) (*Corpus, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("corpus: %s: "+format, append([]any{source}, args...)...)
	}
	var h struct {
		header
		IDs [][]int32 `json:"ids"`
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, fail("%w", err)
	}
	switch {
	case h.Format != Format:
		return nil, fail("format is %q, and a corpus file has %q; a list of texts or ids is a .jsonl", h.Format, Format)
	case h.Version < 1 || h.Version > Version:
		return nil, fail("version %d is not known; this program reads version %d", h.Version, Version)
	case o.BOS != BOSOwn && o.BOS != h.BOS:
		return nil, fail("its begin-token rule is %q, and %q is asked for: build it anew", h.BOS, o.BOS)
	case o.Chunk > 0 || o.Stride > 0:
		return nil, fail("it is cut into chunks already (%s): build it anew for others", h.Chunking)
	}
	switch h.BOS {
	case BOSNone, BOSEach, BOSText, BOSReplace, BOSAsIs:
	default:
		return nil, fail("begin-token rule %q is not known", h.BOS)
	}
	c := &Corpus{
		Name: h.Name, Source: source, Chunks: h.IDs, Tokenizer: h.Tokenizer, Behaviour: h.Behaviour, BOS: h.BOS, Begin: -1,
		Chunking: h.Chunking, LeftOver: h.LeftOver, Calib: h.Calib || o.Calib, Texts: h.Texts,
	}
	if h.Begin != nil {
		c.Begin = *h.Begin
	}
	if err := c.agrees(o); err != nil {
		return nil, err
	}
	if len(c.Chunks) != h.Chunks || c.Tokens() != h.Tokens || c.Positions() != h.Positions {
		return nil, fail("it holds %d chunks of %d tokens, and says %d of %d", len(c.Chunks), c.Tokens(), h.Chunks, h.Tokens)
	}
	if got := sum(c.Chunks); hex.EncodeToString(got[:]) != h.SHA256 {
		return nil, fail("sha256 of the ids is %x, and the file says %s: it was changed", got, h.SHA256)
	}
	for k, chunk := range c.Chunks {
		if (c.BOS == BOSEach || c.BOS == BOSReplace) && (len(chunk) == 0 || chunk[0] != c.Begin) {
			return nil, fail("chunk %d does not begin with token %d, as the rule %q has it", k, c.Begin, c.BOS)
		}
	}
	if len(c.Chunks) == 0 {
		return nil, fail("no chunk in it")
	}
	if o.Chunks > 0 && o.Chunks < len(c.Chunks) {
		c.Chunks = c.Chunks[:o.Chunks]
		c.Chunking += fmt.Sprintf("; the first %d of them", o.Chunks)
	}
	return c, c.finish(o)
}

// agrees holds the tokenizer that made the ids against the model's.
func (c *Corpus) agrees(o Options) error {
	if o.Tokenizer == nil || c.Tokenizer == "" || c.Tokenizer == o.Tokenizer.Identity() {
		return nil
	}
	if c.Behaviour != "" && c.Behaviour == o.Tokenizer.Behaviour() {
		c.Findings = append(c.Findings, Finding{ID: "tokenizer-spelling", Message: "the tokenizer that made the ids is written differently from the model's; tokens and trial texts agree"})
		return nil
	}
	return fmt.Errorf("corpus: %s: its ids were made by tokenizer %.12s, and the model's is %.12s: build it anew with the model's", c.Source, c.Tokenizer, o.Tokenizer.Identity())
}

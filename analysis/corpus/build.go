package corpus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"unicode/utf8"

	"quantscope/quant/tokenizer"
)

// Rules of the begin token.
const (
	BOSOwn     = ""        // each where the tokenizer puts a begin token before a text, none where it puts none
	BOSNone    = "none"    // no begin token
	BOSEach    = "each"    // every chunk begins with one, and has one token of text less for it
	BOSText    = "text"    // one before every text, wherever in a chunk that falls
	BOSReplace = "replace" // one before the first text, and the first token of every chunk is replaced by one, as llama-perplexity does
	BOSAsIs    = "as-is"   // ids came from a file that says nothing of it
)

// Options of making and reading corpora.
type Options struct {
	Tokenizer *tokenizer.Tokenizer // of the reference: makes ids of text, and ids of a file are held against it; nil where there is none
	Vocab     int                  // ids must be below it; 0: the tokenizer's
	Chunk     int                  // tokens of a chunk, begin token included; 0: 512, or as a file of ids has them
	Stride    int                  // tokens of text from the start of one chunk to the start of the next; 0: no token is in two chunks and none is left out
	Chunks    int                  // at most that many; 0: all
	BOS       string               // a rule of the begin token
	Calib     bool                 // meant for calibration
}

// DefaultChunk is the length of chunks where nobody asks for another.
const DefaultChunk = 512

// Bounds of what is read; they are far above what a measurement can use.
const (
	maxBytes  = 1 << 30
	maxTokens = 1 << 27
	maxChunk  = 1 << 20
)

// ErrShort is wrapped where a text has not the tokens for one chunk.
var ErrShort = errors.New("shorter than a chunk")

// Document is one text.
type Document struct {
	Name string // a file, with a line where that has several
	Text string
}

// check refuses settings that make no chunks.
func (o *Options) check() error {
	switch {
	case o.Chunk < 0 || o.Chunk == 1 || o.Chunk > maxChunk:
		return fmt.Errorf("corpus: a chunk of %d tokens: a chunk has from 2 to %d", o.Chunk, maxChunk)
	case o.Stride < 0 || o.Stride > maxChunk:
		return fmt.Errorf("corpus: a stride of %d tokens: it is from 1 to %d", o.Stride, maxChunk)
	case o.Chunks < 0:
		return fmt.Errorf("corpus: %d chunks are less than none", o.Chunks)
	}
	return o.CheckRule()
}

// CheckRule refuses a rule of the begin token that is not known.
func (o *Options) CheckRule() error {
	switch o.BOS {
	case BOSOwn, BOSNone, BOSEach, BOSText, BOSReplace:
		return nil
	}
	return fmt.Errorf("corpus: begin-token rule %q is not known; known are %s, %s, %s, %s", o.BOS, BOSEach, BOSText, BOSNone, BOSReplace)
}

// begin settles the rule and the token that it uses, -1 for none.
func (o *Options) begin() (rule string, id int32, err error) {
	rule = o.BOS
	own, adds := o.Tokenizer.Begin()
	if rule == BOSOwn {
		if !adds {
			return BOSNone, -1, nil
		}
		return BOSEach, own, nil
	}
	id, ok := o.Tokenizer.BeginToken()
	switch {
	case !ok && rule == BOSNone:
		return rule, -1, nil
	case !ok:
		return "", 0, fmt.Errorf("corpus: begin-token rule %q needs a begin token, and the tokenizer names none", rule)
	}
	return rule, id, nil
}

// Build makes a corpus of texts: each is encoded on its own, the ids stand one
// after the other, and chunks are cut from them. Chunks may hold the end of one
// text and the start of the next.
func Build(ctx context.Context, name, source string, docs []Document, o Options) (*Corpus, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Tokenizer == nil {
		return nil, fmt.Errorf("corpus: %s: a text needs a tokenizer to become ids, and there is none", source)
	}
	rule, begin, err := o.begin()
	if err != nil {
		return nil, err
	}
	c := &Corpus{Name: name, Source: source, Tokenizer: o.Tokenizer.Identity(), Behaviour: o.Tokenizer.Behaviour(), BOS: rule, Begin: begin, Calib: o.Calib}
	var ids []int32
	for i, d := range docs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if at := invalidAt(d.Text); at >= 0 {
			return nil, fmt.Errorf("corpus: %s: byte %d (0x%02X) is not UTF-8", d.Name, at, d.Text[at])
		}
		c.Texts = append(c.Texts, Text{Name: d.Name, Bytes: int64(len(d.Text)), SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(d.Text)))})
		if len(d.Text) >= 3 && d.Text[:3] == "\uFEFF" {
			c.Findings = append(c.Findings, Finding{ID: "byte-order-mark", Message: d.Name + " begins with a byte-order mark, which is part of the text here and gets ids of its own"})
		}
		if rule == BOSText || rule == BOSReplace && i == 0 {
			ids = append(ids, begin)
		}
		ids = append(ids, o.Tokenizer.Encode(d.Text, false)...)
		if len(ids) > maxTokens {
			return nil, fmt.Errorf("corpus: %s: more than %d tokens", d.Name, maxTokens)
		}
	}
	if err := c.cut(ids, o); err != nil {
		return nil, err
	}
	return c, c.finish(o)
}

// invalidAt is the first byte that is not UTF-8, -1 where all of it is.
func invalidAt(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for at := 0; at < len(s); {
		r, size := utf8.DecodeRuneInString(s[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// cut makes chunks of a run of ids, and says how.
func (c *Corpus) cut(ids []int32, o Options) error {
	size := o.Chunk
	if size == 0 {
		size = DefaultChunk
	}
	text := size
	if c.BOS == BOSEach {
		text--
	}
	step := o.Stride
	if step == 0 {
		step = text
	}
	if len(ids) < text {
		return fmt.Errorf("corpus: %s: %w: %d tokens, and a chunk takes %d", c.Source, ErrShort, len(ids), text)
	}
	n := (len(ids)-text)/step + 1
	if o.Chunks > 0 {
		n = min(n, o.Chunks)
	}
	if int64(n)*int64(size) > maxTokens {
		return fmt.Errorf("corpus: %s: %d chunks of %d tokens are more than %d tokens", c.Source, n, size, maxTokens)
	}
	flat := make([]int32, 0, n*size)
	for i := range n {
		start := len(flat)
		part := ids[i*step : i*step+text]
		switch c.BOS {
		case BOSEach:
			flat = append(append(flat, c.Begin), part...)
		case BOSReplace:
			flat = append(append(flat, c.Begin), part[1:]...)
		default:
			flat = append(flat, part...)
		}
		c.Chunks = append(c.Chunks, flat[start:len(flat):len(flat)])
	}
	c.LeftOver = max(len(ids)-((n-1)*step+text), 0)
	c.Chunking = fmt.Sprintf("%d chunks of %d tokens", n, size)
	if n == 1 {
		c.Chunking = fmt.Sprintf("1 chunk of %d tokens", size)
	}
	switch {
	case step < text:
		c.Chunking += fmt.Sprintf(", each begins %d after the one before, so they overlap", step)
	case step > text:
		c.Chunking += fmt.Sprintf(", each begins %d after the one before, so text between them is left out", step)
	}
	if c.LeftOver > 0 {
		c.Chunking += fmt.Sprintf("; %d tokens at the end are left out", c.LeftOver)
	}
	return nil
}

// finish checks ids, looks for begin tokens that stand twice, and sums.
func (c *Corpus) finish(o Options) error {
	vocab := o.Vocab
	if vocab == 0 && o.Tokenizer != nil {
		vocab = o.Tokenizer.Vocab()
	}
	for k, chunk := range c.Chunks {
		if len(chunk) < 2 {
			return fmt.Errorf("corpus: %s: %w: chunk %d has %d tokens, and a prediction needs 2", c.Source, ErrShort, k, len(chunk))
		}
		for i, id := range chunk {
			if id < 0 || vocab > 0 && int(id) >= vocab {
				return fmt.Errorf("corpus: %s: token id %d at chunk %d, position %d, is outside the vocabulary of %d", c.Source, id, k, i, vocab)
			}
		}
	}
	c.checkBegin(o)
	c.SHA256 = sum(c.Chunks)
	return nil
}

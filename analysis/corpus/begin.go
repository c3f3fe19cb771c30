package corpus

import "fmt"

// checkBegin looks for a begin token that stands twice at the start of a chunk, as
// it does where a tokenizer and a chat template add one each. A model has never
// seen that, so figures from such a corpus say little. Where no begin token is known, a
// corpus whose every chunk begins with one and the same token twice has it.
func (c *Corpus) checkBegin(o Options) {
	begin := c.Begin
	if begin < 0 && o.Tokenizer != nil {
		if id, ok := o.Tokenizer.BeginToken(); ok {
			begin = id
		}
	}
	twice, first := 0, -1
	guess := len(c.Chunks) > 1
	for k, chunk := range c.Chunks {
		if chunk[0] != chunk[1] || chunk[0] != c.Chunks[0][0] {
			guess = false
		}
		if begin >= 0 && chunk[0] == begin && chunk[1] == begin {
			if first < 0 {
				first = k
			}
			twice++
		}
	}
	of := fmt.Sprintf("%d of %d chunks begin with it", twice, len(c.Chunks))
	switch {
	case first >= 0:
	case begin < 0 && guess:
		first, begin = 0, c.Chunks[0][0]
		of = "every chunk begins so, and no tokenizer is there to say what it is"
	default:
		return
	}
	c.Findings = append(c.Findings, Finding{
		ID: "begin-twice", Chunk: first, Position: 1, Token: begin, Incomparable: true,
		Message: fmt.Sprintf("begin token (bos) twice: id %d at positions 0 and 1 of chunk %d (%s); perplexities on this corpus are not comparable", begin, first, of),
	})
}

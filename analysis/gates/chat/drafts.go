package chat

// Drafts is what drafting brought in one answer. Counts that were not told are -1.
type Drafts struct {
	K        int   `json:"k"`        // most tokens that are drafted a step
	Drafts   int64 `json:"drafts"`   // times that tokens were drafted
	Drafted  int64 `json:"drafted"`  // tokens
	Accepted int64 `json:"accepted"` // tokens
	// BySteps has a byte for each step after the first token: 16 times the tokens that
	// were drafted, and those accepted of them. nil where sums alone are told.
	BySteps []byte `json:"by_steps,omitempty"`
}

// mostNoted is how many tokens of a step a byte of Drafts.BySteps can tell.
const mostNoted = 15

// Note adds a step.
func (d *Drafts) Note(drafted, accepted int) {
	if drafted > 0 {
		d.Drafts++
		d.Drafted += int64(drafted)
		d.Accepted += int64(accepted)
	}
	d.BySteps = append(d.BySteps, byte(min(drafted, mostNoted)<<4|min(accepted, mostNoted)))
}

// Whole says that the counts fit together: no more is accepted than drafted, and no
// more drafted than K a step. Sums of steps are those that are told beside them.
func (d *Drafts) Whole() bool {
	if d.Drafts < 0 || d.Drafted < d.Drafts || d.Accepted < 0 || d.Accepted > d.Drafted || d.K >= 0 && d.Drafted > int64(d.K)*d.Drafts {
		return false
	}
	if d.BySteps == nil {
		return true
	}
	var sum Drafts
	for _, b := range d.BySteps {
		if b&mostNoted > b>>4 {
			return false
		}
		if b>>4 > 0 {
			sum.Drafts, sum.Drafted, sum.Accepted = sum.Drafts+1, sum.Drafted+int64(b>>4), sum.Accepted+int64(b&mostNoted)
		}
	}
	return sum.Drafts == d.Drafts && sum.Drafted == d.Drafted && sum.Accepted == d.Accepted
}

// Block is what drafting brought in a stretch of an answer.
type Block struct {
	Drafts   int64 `json:"drafts"`
	Drafted  int64 `json:"drafted"`
	Accepted int64 `json:"accepted"`
}

// Blocks cuts an answer of so many tokens into stretches of size tokens: a step is in
// that where its first token is. nil where steps are not told, or tell of other tokens
// than were made.
func (d *Drafts) Blocks(tokens, size int) []Block {
	if d.BySteps == nil || tokens <= 0 || size <= 0 || len(d.BySteps) >= tokens {
		return nil
	}
	out := make([]Block, (tokens+size-1)/size)
	at := 1 // the first token is that of the prompt's own pass
	for _, b := range d.BySteps {
		if at >= tokens {
			return nil
		}
		if n := b >> 4; n > 0 {
			k := &out[at/size]
			k.Drafts, k.Drafted, k.Accepted = k.Drafts+1, k.Drafted+int64(n), k.Accepted+int64(b&mostNoted)
		}
		at += 1 + int(b&mostNoted)
	}
	// The last step has no token of its own where the answer ends at a draft.
	if at != tokens && at != tokens+1 {
		return nil
	}
	return out
}

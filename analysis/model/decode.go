package model

import "context"

// Decoder takes one text through a model token by token, with a cache of keys
// and values. Its hidden states are the bits that Run gives for the whole text,
// where the rope does not depend on the length.
type Decoder struct {
	*Batch
	text *Text
	step [1]*Step
}

// NewDecoder begins an empty text. Release of the source ends it.
func NewDecoder(ctx context.Context, spec *Spec, src Source, o Options) (*Decoder, error) {
	b, err := NewBatch(ctx, spec, src, o)
	if err != nil {
		return nil, err
	}
	d := &Decoder{Batch: b, text: NewText(spec, 0)}
	d.step[0] = &Step{Text: d.text}
	return d, nil
}

// Len is how many tokens were taken.
func (d *Decoder) Len() int { return d.text.n }

// Feed takes tokens and returns their final hidden states, before the final
// norm; they are valid until the next call.
func (d *Decoder) Feed(ctx context.Context, tokens []int32) ([]float32, error) {
	d.step[0].Tokens = tokens
	x, err := d.Batch.Feed(ctx, d.step[:])
	if err == nil {
		err = d.step[0].Err
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Cut forgets all but the first n tokens.
func (d *Decoder) Cut(n int) { d.text.Cut(n) }

package corpus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"quantscope/quant/demo"
	"quantscope/quant/tokenizer"
)

// demoOrder is how tables list the embedded corpora: plain text first, what is for
// calibration last.
var demoOrder = []string{"prose", "code", "multi", "math", "chat", demo.Calibration}

// embedded is read once; whoever asks gets corpora of their own, over the same ids.
var embedded = sync.OnceValues(readDemo)

// Demo are the embedded corpora: prose, code, multi, math and chat, which were
// held out from the training of the demo model, and calib, which is marked so. The
// ids are shared and not to be changed.
func Demo() ([]*Corpus, error) {
	all, err := embedded()
	if err != nil {
		return nil, err
	}
	out := make([]*Corpus, len(all))
	for i := range all {
		c := *all[i]
		out[i] = &c
	}
	return out, nil
}

// DemoTokenizer is the tokenizer of the demo model, whose ids the embedded corpora
// hold.
var DemoTokenizer = sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
	ck, err := demo.Open()
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	f, ok := ck.SideFile("tokenizer.json")
	if !ok {
		return nil, fmt.Errorf("corpus: %s has no tokenizer.json", demo.Label)
	}
	data, err := f.Read()
	if err != nil {
		return nil, err
	}
	return tokenizer.Parse(data)
})

func readDemo() ([]*Corpus, error) {
	tok, err := DemoTokenizer()
	if err != nil {
		return nil, err
	}
	stored, err := demo.Corpora()
	if err != nil {
		return nil, err
	}
	var all []*Corpus
	for i := range stored {
		s := &stored[i]
		c := &Corpus{
			Name: strings.TrimPrefix(s.Name, "eval."), Source: demo.Label, SHA256: s.SHA256,
			Tokenizer: tok.Identity(), BOS: "none", Chunking: fmt.Sprintf("%d chunks of %d tokens", s.Chunks, s.Length),
			Calib: s.Name == demo.Calibration, Behaviour: tok.Behaviour(), Begin: -1,
		}
		for k := range s.Chunks {
			c.Chunks = append(c.Chunks, s.Chunk(k))
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b *Corpus) int {
		return cmp.Compare(slices.Index(demoOrder, a.Name), slices.Index(demoOrder, b.Name))
	})
	return all, nil
}

package through

import (
	"quantscope/analysis/gates/chat"
)

// Options of a measurement.
type Options struct {
	Top      int // likeliest tokens to ask for at each position; 0: 20
	Progress func(done, of int)
	// Text is the text of ids, for servers that take none; nil: those are refused.
	// What they cut the text into must be the same for both arms.
	Text func(ids []int32) string
}

// Position is what two servers said of one position of a text.
type Position struct {
	Chunk, At     int
	NLL, RefNLL   float64 // of the true next token, in nats
	Rank, RefRank int     // of the true next token; 0: not told
	KL            float64 // lower bound: tokens that both tell, and the rest as one
	Seen, RefSeen float64 // probability within the likeliest
	Same          bool    // the likeliest is the same; of several as likely, one of them
}

// Arm is what one server said of the texts. Standard errors are over texts, as the
// yardstick's are; over positions, and so too small, where there is only one text.
type Arm struct {
	Positions  int     `json:"positions"`
	NLL        float64 `json:"nll"` // mean, in nats
	SE         float64 `json:"nll_stderr"`
	PPL        float64 `json:"ppl"`
	MedianRank float64 `json:"median_rank"` // of the true next token; a rank that is not told counts as one behind the likeliest. 0: nothing is told
	Seen       float64 `json:"seen"`        // mean probability within the likeliest
	Top        int     `json:"top"`
}

// Pair is a candidate against the baseline, on the positions of both.
type Pair struct {
	Positions int     `json:"positions"`
	KL        float64 `json:"kl_lower_bound"` // mean, in nats
	SE        float64 `json:"kl_stderr"`
	Top1      float64 `json:"top1"`
	DeltaNLL  float64 `json:"delta_nll"`
	DeltaSE   float64 `json:"delta_nll_stderr"`
}

// Said is what a server said of texts: a token a position, with the likeliest.
type Said struct {
	Texts [][]chat.Token
	Top   int
}

package gates

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"quantscope/analysis/gates/chat"
)

// nonceBytes are enough that two runs do not draw the same one, and as digits they
// fill the first block of a prefix cache, which is sixteen tokens or more only where
// tokens are single digits.
const nonceBytes = 8

// newNonce draws from the system's source, which has no seed: a nonce that could be
// drawn again could be remembered.
func newNonce() string {
	var b [nonceBytes]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// freshen puts a nonce that no other request of the run has before the text of a
// request, so before all that a server could have kept, and records it.
func (r *run) freshen(q *chat.Request, res *Result) {
	r.mu.Lock()
	n := newNonce()
	for r.nonces[n] {
		n = newNonce()
	}
	r.nonces[n] = true
	r.mu.Unlock()
	if res.Nonce != "" {
		res.Nonce += " "
	}
	res.Nonce += n
	prefix(q, n)
}

// prefix puts a line before the first text of a request.
func prefix(q *chat.Request, line string) {
	if len(q.Messages) > 0 {
		q.Messages[0].Content = line + "\n" + q.Messages[0].Content
		return
	}
	q.Prompt = line + "\n" + q.Prompt
}

// noncesOf are those of a result, one a request.
func noncesOf(r *Result) []string { return strings.Fields(r.Nonce) }

package gates

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quantscope/analysis/gates/chat"
)

// Bounds of the look for remembered prompts.
const (
	cachedRounds = 5 // fresh prompts, each followed by itself
	// Words of a prompt: so many at first, and where probes are timed twice as many
	// until computing one takes cachedWhile, so that remembering it would show.
	cachedWords = 160
	cachedMost  = 2560
	cachedWhile = 50 * time.Millisecond
	// cachedPairs of the 25 pairs of a repeat and a fresh prompt may have the repeat
	// the slower one: the rank sum test of five against five has p = 4/252 there.
	cachedPairs = 2
	// cachedRatio is what the medians must differ by as well: less is no cache of a
	// prompt that long.
	cachedRatio = 0.7
	// On a busy machine a repeat now and then waits for others: so many pairs may be
	// the other way round (by chance alone in one of nine) where medians differ that much.
	cachedBusy      = 6
	cachedBusyRatio = 0.25
	// cachedTokens are made of each, so that a module that drafts sees the prompt too.
	cachedTokens = 4
	// cachedHead is how many tokens before the nonce a server may have kept: the head
	// that its chat template puts before every conversation.
	cachedHead  = 64
	cachedShare = 0.25
)

// remembered says whether so many cached tokens are more than a template's head.
func remembered(cached, prompt int) bool {
	return cached > cachedHead && float64(cached) > cachedShare*float64(max(0, prompt))
}

// cached looks whether the arm remembers prompts, and whether it says so: timings of
// a server that does and does not are not those of computing, and tokens a second
// are told of every arm.
func (e *exam) cached(ctx context.Context) error {
	words, most := cachedWords, cachedWords
	if e.setup.timed() {
		most = cachedMost
	}
	if n := e.m.Identity.MaxTokens; n > 0 {
		words, most = min(words, n/4), min(most, n/4)
	}
	before, countErr := e.t.Counters(ctx)
	var l look
	for rounds := cachedRounds; len(l.fresh) < rounds; {
		r := e.form.request(longText(words), cachedTokens)
		r.Stream, r.Logprobs = true, 0
		prefix(&r, newNonce())
		first, err, stop := e.once(ctx, r)
		if stop != nil {
			return stop
		}
		if len(l.fresh) == 0 && err != nil && words > 40 {
			words /= 2 // too long for its context, perhaps
			most = words
			continue
		}
		if len(l.fresh) == 0 && err == nil && first.First > 0 && first.First < cachedWhile && 2*words <= most {
			words *= 2
			continue
		}
		var again chat.Reply
		if err == nil {
			again, err, stop = e.once(ctx, r)
		}
		if stop != nil {
			return stop
		}
		if err != nil {
			e.add(CheckCached, CheckUnknown, nil, "a long prompt is not answered: %v", err)
			return nil
		}
		l.take(&first, &again)
		if len(l.fresh) == cachedRounds && l.unclear() {
			rounds = 2 * cachedRounds
		}
	}
	if after, err := e.t.Counters(ctx); err == nil && countErr == nil {
		l.hits = after.Since(before).CacheHits
		l.counted = l.hits >= 0
	}
	state, text, figures := l.judge()
	e.add(CheckCached, state, figures, "%s", text)
	return nil
}

// look is what fresh prompts took and said, and what each did when it came again.
type look struct {
	fresh, again []time.Duration // to the first token; 0: not told
	freshCached  int             // fresh prompts of which more was kept than a head
	againCached  int
	told         bool // cached tokens are told
	hits         int64
	counted      bool
}

func (l *look) take(first, again *chat.Reply) {
	l.fresh, l.again = append(l.fresh, first.First), append(l.again, again.First)
	l.told = l.told || first.CachedTokens >= 0 || again.CachedTokens >= 0
	if remembered(first.CachedTokens, first.PromptTokens) {
		l.freshCached++
	}
	if again.CachedTokens > cachedHead/4 {
		l.againCached++
	}
}

// faster says whether prompts that came again were answered sooner than chance has it.
func (l *look) faster() bool {
	slower := 0
	for _, x := range l.again {
		for _, y := range l.fresh {
			if x >= y {
				slower++
			}
		}
	}
	pairs, busy := cachedPairs, cachedBusy
	if len(l.fresh) > cachedRounds { // of ten against ten a fifth of the pairs has p = 0.012
		pairs = len(l.fresh) * len(l.again) / 5
		busy = pairs
	}
	r := l.ratio()
	return slower <= pairs && r < cachedRatio || slower <= busy && r < cachedBusyRatio
}

// unclear says that more rounds are needed: medians differ as they do where prompts are
// remembered, and single times do not bear it out.
func (l *look) unclear() bool { return l.ratio() < cachedRatio && !l.faster() }

func (l *look) ratio() float64 { return float64(middle(l.again)) / float64(middle(l.fresh)) }

func (l *look) judge() (CheckState, string, map[string]float64) {
	timed := !slices.Contains(l.fresh, 0) && !slices.Contains(l.again, 0)
	f := map[string]float64{"fresh": float64(len(l.fresh))}
	var faster bool
	var times string
	if timed {
		a, b := middle(l.fresh), middle(l.again)
		f["fresh_ms"], f["again_ms"], f["ratio"] = ms(a), ms(b), float64(b)/float64(a)
		faster = l.faster()
		times = fmt.Sprintf("the first token came after %.3g ms of a fresh prompt and %.3g ms of the same again", ms(a), ms(b))
	}
	says := l.againCached > 0 || l.counted && l.hits > 0
	switch {
	case l.freshCached > 0:
		return CheckFailed, fmt.Sprintf("of %d of %d prompts with a nonce of their own the server says that it had kept them", l.freshCached, len(l.fresh)), f
	case faster && !says:
		return CheckFailed, "it remembers prompts and does not say so: " + times, f
	case says && timed:
		return CheckPassed, "it remembers prompts and says so; timed ones have a nonce each: " + times, f
	case says:
		return CheckPassed, "it remembers prompts and says so; timed ones have a nonce each", f
	case timed:
		return CheckPassed, "it does not remember prompts: " + times, f
	case l.told || l.counted:
		return CheckPassed, "it says that it kept none of the prompts that came again; how long the first token took is not told", f
	}
	return CheckUnknown, "neither the time of the first token nor cached tokens are told", f
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func middle(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}

// longText is plain text of so many words, no two sentences of which are the same.
func longText(words int) string {
	who := []string{"the miller", "a sailor", "my sister", "the judge", "one neighbour", "the baker", "a young clerk"}
	did := []string{"carried", "found", "painted", "sold", "counted", "repaired", "forgot", "measured"}
	what := []string{"lamps", "ropes", "apples", "chairs", "letters", "bells", "maps", "barrels", "coats"}
	var b strings.Builder
	b.WriteString("Read this and answer with one word.")
	for i := range max(1, words/7) {
		fmt.Fprintf(&b, " On day %d %s %s %d %s.", i+1, who[i%len(who)], did[i%len(did)], 3+i*5%17, what[i%len(what)])
	}
	return b.String()
}

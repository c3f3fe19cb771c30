package recipe

import (
	"strconv"
	"strings"
)

// numbersRegex matches the numbers of a sorted set, written without leading
// zeros, and no other digits: (?:[02-9]|1[0-5]?) for 0 to 15. The first digit
// decides between alternatives, and so on, so that a matcher never goes back.
func numbersRegex(set []int) string {
	texts := make([]string, len(set))
	for i, n := range set {
		texts[i] = strconv.Itoa(n)
	}
	return digitsRegex(texts)
}

// digitsRegex matches the texts of a set; an empty one among them makes the rest
// optional.
func digitsRegex(texts []string) string {
	var next [10][]string
	optional := false
	for _, t := range texts {
		if t == "" {
			optional = true
			continue
		}
		next[t[0]-'0'] = append(next[t[0]-'0'], t[1:])
	}
	// Digits with the same rest share a class.
	var rests []string
	digits := map[string][]int{}
	for d, tails := range next {
		if tails == nil {
			continue
		}
		rest := digitsRegex(tails)
		if digits[rest] == nil {
			rests = append(rests, rest)
		}
		digits[rest] = append(digits[rest], d)
	}
	var parts []string
	for _, rest := range rests {
		parts = append(parts, digitClass(digits[rest])+rest)
	}
	switch {
	case len(parts) == 0:
		return ""
	case optional && len(parts) == 1 && rests[0] == "":
		return parts[0] + "?"
	case optional:
		return "(?:" + strings.Join(parts, "|") + ")?"
	case len(parts) == 1:
		return parts[0]
	}
	return "(?:" + strings.Join(parts, "|") + ")"
}

// digitClass is 7, [0-9] or [02-46].
func digitClass(digits []int) string {
	if len(digits) == 1 {
		return strconv.Itoa(digits[0])
	}
	var b strings.Builder
	b.WriteByte('[')
	for i := 0; i < len(digits); {
		k := i
		for k+1 < len(digits) && digits[k+1] == digits[k]+1 {
			k++
		}
		b.WriteString(strconv.Itoa(digits[i]))
		if k > i+1 {
			b.WriteByte('-')
		}
		if k > i {
			b.WriteString(strconv.Itoa(digits[k]))
		}
		i = k + 1
	}
	b.WriteByte(']')
	return b.String()
}

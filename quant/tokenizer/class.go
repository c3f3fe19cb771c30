package tokenizer

import "strings"

// Class is what kind of text a token stands for.
type Class uint8

// Classes of tokens.
const (
	ASCII    Class = iota // letters, punctuation and spaces of ASCII, with or without digits among them
	NonASCII              // any byte from 0x80 up, so also a part of a character
	Digits                // ASCII digits and nothing else but spaces around them
	Special               // a special token, or an id without a token
)

// Classes lists all classes, in the order of their numbers.
var Classes = [...]Class{ASCII, NonASCII, Digits, Special}

func (c Class) String() string {
	switch c {
	case ASCII:
		return "ascii"
	case NonASCII:
		return "non-ascii"
	case Digits:
		return "digits"
	}
	return "special"
}

// Class is the class of an id.
func (t *Tokenizer) Class(id int32) Class {
	if id < 0 || int(id) >= len(t.vocab) || t.silent[id] || t.vocab[id] == "" {
		return Special
	}
	return TextClass(string(t.Bytes(id)))
}

// TextClass is the class of a token that is not special, by the text that it
// stands for.
func TextClass(text string) Class {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return NonASCII
		}
	}
	digits := strings.TrimSpace(text)
	if digits != "" && strings.Trim(digits, "0123456789") == "" {
		return Digits
	}
	return ASCII
}

// spelling is how a vocabulary spells text.
type spelling struct {
	byteLevel bool   // each byte as a printable character
	fallback  bool   // <0x00> to <0xFF> are bytes
	space     string // stands for a space; "" for none
}

// Bytes are those that a token stands for in a text: one byte of a character for a
// byte token, so not always UTF-8. Added tokens stand for themselves.
func (t *Tokenizer) Bytes(id int32) []byte {
	token := t.Token(id)
	switch {
	case t.adds[id]:
		return []byte(token)
	case t.spell.byteLevel:
		return byteLevelBytes(nil, token)
	case t.spell.fallback:
		if b, ok := byteToken(token); ok {
			return []byte{b}
		}
	}
	if t.spell.space != "" {
		token = strings.ReplaceAll(token, t.spell.space, " ")
	}
	return []byte(token)
}

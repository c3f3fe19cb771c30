package topology

import (
	"fmt"
	"slices"
	"strings"
)

// kindNames are the words of kinds, by kind. They are part of file formats.
var kindNames = [...]string{
	Unknown:      "unknown",
	Embedding:    "embedding",
	Head:         "head",
	Norm:         "norm",
	Attention:    "attention",
	MLP:          "mlp",
	Expert:       "expert",
	SharedExpert: "shared_expert",
	Router:       "router",
	MTPExtra:     "mtp_extra",
	Vision:       "vision",
	Mixing:       "mixing",
}

// String is the word for a kind, as in "shared_expert".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText writes the word.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= len(kindNames) {
		return nil, fmt.Errorf("topology: kind %d has no name", uint8(k))
	}
	return []byte(kindNames[k]), nil
}

// UnmarshalText reads the word; an unknown one is an error that lists the known.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("topology: unknown kind %q (known: %s)", text, strings.Join(kindNames[:], ", "))
	}
	*k = Kind(i)
	return nil
}

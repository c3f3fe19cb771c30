package tier

import "fmt"

// Shape is where a model has routed experts, and what they take.
type Shape struct {
	Layers  []int   `json:"layers"`  // indices of the layers with experts, ascending
	Experts int     `json:"experts"` // of each
	TopK    int     `json:"top_k"`
	Hot     []int64 `json:"hot_bytes"`  // of one expert in the hot precision, by index in Layers
	Cold    []int64 `json:"cold_bytes"` // of one in the cold one
}

// Total is how many experts there are.
func (s *Shape) Total() int { return len(s.Layers) * s.Experts }

// AllHot and AllCold are the bytes of all experts in one precision.
func (s *Shape) AllHot() int64 { return s.all(s.Hot) }

// AllCold is AllHot of the cold precision.
func (s *Shape) AllCold() int64 { return s.all(s.Cold) }

func (s *Shape) all(of []int64) (n int64) {
	for _, b := range of {
		n += b * int64(s.Experts)
	}
	return n
}

// Check is an error where a shape claims what cannot be.
func (s *Shape) Check() error {
	switch {
	case len(s.Layers) == 0 || s.Experts < 1:
		return fmt.Errorf("tier: a model of %d layers with %d experts has no experts to choose from", len(s.Layers), s.Experts)
	case s.TopK < 1 || s.TopK > s.Experts:
		return fmt.Errorf("tier: %d of %d experts a token", s.TopK, s.Experts)
	case len(s.Layers) > maxLayers || s.Experts > maxExperts:
		return fmt.Errorf("tier: %d layers of %d experts, of at most %d and %d", len(s.Layers), s.Experts, maxLayers, maxExperts)
	case len(s.Hot) != len(s.Layers) || len(s.Cold) != len(s.Layers):
		return fmt.Errorf("tier: bytes of %d and %d layers in place of %d", len(s.Hot), len(s.Cold), len(s.Layers))
	}
	for i := range s.Layers {
		if i > 0 && s.Layers[i] <= s.Layers[i-1] {
			return fmt.Errorf("tier: layer %d after layer %d", s.Layers[i], s.Layers[i-1])
		}
		if s.Hot[i] <= 0 || s.Cold[i] <= 0 || s.Hot[i] > maxBytes || s.Cold[i] > maxBytes {
			return fmt.Errorf("tier: an expert of layer %d takes %d bytes hot and %d cold", s.Layers[i], s.Hot[i], s.Cold[i])
		}
	}
	return nil
}

// Bounds of a shape: more than any model has.
const (
	maxLayers  = 1 << 12
	maxExperts = 1 << 14
	maxBytes   = 1 << 40
)

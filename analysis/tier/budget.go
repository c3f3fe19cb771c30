package tier

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrBudget is wrapped by errors about a budget that cannot be read.
var ErrBudget = errors.New("budget")

var units = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// ParseBudget reads a share of what all experts take in the hot precision (25%, 0.25)
// or a number of bytes (1.5GiB, 800MB, 4096B). A bare number is a share, from 0 to 1.
func ParseBudget(text string, s *Shape) (Budget, error) {
	refuse := func(why string) (Budget, error) {
		return Budget{}, fmt.Errorf("%w %q: %s (want a share such as 25%% or 0.25, or bytes such as 1.5GiB)", ErrBudget, text, why)
	}
	all := s.AllHot()
	number, of, share := strings.TrimSpace(text), 1.0, true
	if n, ok := strings.CutSuffix(number, "%"); ok {
		number, of = n, 100
	} else {
		for _, u := range units {
			if n, ok := strings.CutSuffix(number, u.name); ok {
				number, of, share = n, u.bytes, false
				break
			}
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch {
	case err != nil:
		return refuse("is no number")
	case math.IsNaN(v) || v < 0:
		return refuse("is below 0")
	case share && v > of:
		return refuse("is more than everything")
	case share:
		return Budget{Label: strconv.FormatFloat(100*v/of, 'g', 6, 64) + "%", Share: v / of, Bytes: int64(v / of * float64(all))}, nil
	case v*of > maxBytes*maxExperts:
		return refuse("is more than any model has")
	}
	b := Budget{Label: strings.TrimSpace(text), Bytes: min(int64(v*of), all)}
	b.Share = float64(b.Bytes) / float64(all)
	return b, nil
}

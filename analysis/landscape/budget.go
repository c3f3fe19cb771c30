package landscape

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// BudgetError is a budget that no assignment fills: below the smallest size, or
// above the largest that pays.
type BudgetError struct {
	Budget, Least, Most int64 // bytes
	Elements            int64 // weights in all
	Fixed, Items        int   // tensors without figures, which keep the source's weights, of all
}

func (e *BudgetError) Error() string {
	side := "is below the least"
	if e.Budget > e.Most {
		side = "is above the most"
	}
	text := fmt.Sprintf("budget of %d bytes (%.4f bits per weight) %s: these variants take %d to %d bytes, %.4f to %.4f bits per weight",
		e.Budget, bitsPerWeight(e.Budget, e.Elements), side, e.Least, e.Most, bitsPerWeight(e.Least, e.Elements), bitsPerWeight(e.Most, e.Elements))
	if e.Fixed > 0 {
		text += fmt.Sprintf("; %d of %d tensors have no finite figures and keep the source's weights", e.Fixed, e.Items)
	}
	return text
}

func bitsPerWeight(bytes, elements int64) float64 {
	return 8 * float64(bytes) / float64(max(elements, 1))
}

// byteUnits are the suffixes of sizes, the longer first where one ends in another.
var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseBudget reads a budget for a number of weights, in bytes: 4.6bpw (bits
// per weight over all of them), a size such as 12GiB or 3.4MB, or whole bytes.
func ParseBudget(s string, elements int64) (int64, error) {
	number, factor := strings.TrimSpace(s), 1.0
	if rest, ok := strings.CutSuffix(number, "bpw"); ok {
		number, factor = rest, float64(elements)/8
	} else {
		for _, u := range byteUnits {
			if rest, ok := strings.CutSuffix(number, u.suffix); ok {
				number, factor = rest, u.factor
				break
			}
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || !(v*factor >= 1) || v*factor >= math.MaxInt64 {
		return 0, fmt.Errorf("budget %q is none such as 4.6bpw, 12GiB or 3.4MB", s)
	}
	if factor == 1 && v != math.Trunc(v) {
		return 0, fmt.Errorf("budget %q is no whole number of bytes: %sbpw, %sGiB?", s, number, number)
	}
	return int64(v * factor), nil
}

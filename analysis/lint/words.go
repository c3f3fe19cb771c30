package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// counted is "1 tensor", "2 tensors".
func counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// sorted is a list in order.
func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// sortedInts are the keys of a map in order.
func sortedInts[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }

// ranges writes sorted numbers as 0–3, 5.
func ranges(list []int) string {
	const most = 8
	var parts []string
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		if len(parts) == most {
			return strings.Join(parts, ", ") + ", …"
		}
		if k == i {
			parts = append(parts, fmt.Sprint(list[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", list[i], list[k]))
		}
		i = k + 1
	}
	return strings.Join(parts, ", ")
}

// some joins the first words of a list, and says how many there are more.
func some(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// rootOf is a JSON object; nil for anything else.
func rootOf(text []byte) map[string]any {
	var root map[string]any
	if json.Unmarshal(text, &root) != nil {
		return nil
	}
	return root
}

// percent is a share of a whole.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

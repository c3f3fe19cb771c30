package tier

import (
	"fmt"
	"strings"
)

// words are what sentences call a control.
var words = map[string]string{Fixed: "the best fixed map", Random: "one by chance", Coldest: "the coldest"}

// verdict is what a run says, in sentences with the figures in them.
func (s *Setup) verdict(e *End) string {
	var out []string
	for _, r := range e.Results {
		if r.Coverage == 0 || r.Coverage == 1 {
			continue
		}
		text := fmt.Sprintf("With %s, %.0f %% of the experts are hot and serve %.1f %% of the routed pairs (", s.Budgets[r.Budget].Label, 100*r.Coverage, 100*r.Hits)
		for i, c := range r.Controls {
			if i > 0 {
				text += ", "
			}
			text += fmt.Sprintf("%s %.1f %%", words[c.Name], 100*c.Hits)
		}
		out = append(out, text+fmt.Sprintf("), %.1f experts a window change.", r.ChurnWindow))
	}
	switch c := e.Curve; {
	case c.Knee >= 0:
		out = append(out, fmt.Sprintf("The knee is at %.0f %% of the bytes, where the curve is %.1f points above the diagonal (even routing over %d tokens: %.1f).", 100*c.Knee, 100*c.Rise, s.Workload.Tokens, 100*c.Noise))
	default:
		out = append(out, fmt.Sprintf("There is no knee: the curve is at most %.1f points above the diagonal, and even routing over %d tokens would be %.1f.", 100*c.Rise, s.Workload.Tokens, 100*c.Noise))
	}
	return strings.Join(out, " ")
}

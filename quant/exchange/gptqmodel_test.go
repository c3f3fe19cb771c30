package exchange

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// GPTQModel leaves out by expressions of dynamic what is kept: every linear map of MTP
// layers too, which a model with their class loaded would have quantized.
func TestGPTQModelLeavesMTPOut(t *testing.T) {
	m := demoModel(t)
	of := func(r topology.Role) int {
		if plainly(r) {
			return 0
		}
		return -1
	}
	doc, err := Export("gptqmodel", assigned(m, []recipe.Group{group("int4-g128-sym", "gptq")}, of))
	if err != nil {
		t.Fatal(err)
	}
	var q struct {
		Dynamic map[string]any `json:"dynamic"`
	}
	if err := json.Unmarshal(doc.Data, &q); err != nil {
		t.Fatal(err)
	}
	mtp := 0
	for _, x := range modules(m) {
		if !x.linear {
			continue
		}
		left := false
		for key := range q.Dynamic {
			expr, ok := strings.CutPrefix(key, "-:")
			left = left || ok && regexp.MustCompile("^(?:"+expr+")").MatchString(x.name)
		}
		switch {
		case x.role.MTP && !left:
			t.Errorf("%s is not left out", x.name)
		case plainly(x.role) && left:
			t.Errorf("%s is left out", x.name)
		case x.role.MTP:
			mtp++
		}
	}
	if mtp == 0 {
		t.Error("the demo has no MTP layer")
	}
}

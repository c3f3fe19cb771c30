package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/layout/layouttest"
)

// A model in GPTQ's and in AWQ's layout is as far from its source as what its codes
// stand for, to the bit; inspect, lint and verify take it as it is.
func TestPackedCheckpointsThroughCommands(t *testing.T) {
	source := demoFolder(t)
	for _, form := range []layouttest.Form{{Bits: 4, Group: 32, Order: true}, {AWQ: true, Bits: 4, Group: 64}, {Bits: 3, Group: 64, Sym: true, V2: true}} {
		packed, twin := layouttest.Demo(t, form)
		d := measureDoc(t, exitGood, "demo", "--candidate", "packed="+packed, "--candidate", "twin="+twin, "--corpus", "prose", "--chunks", "1", "--no-floor", "--session", filepath.Join(t.TempDir(), "kl.qscope"))
		if len(d.Candidates) != 2 {
			t.Fatalf("%d candidates", len(d.Candidates))
		}
		p, f := d.Candidates[0], d.Candidates[1]
		if p.KLMean != f.KLMean || p.KLMax != f.KLMax || p.NLL != f.NLL || p.Top1 != f.Top1 || !(p.KLMean > 0.0005 && p.KLMean < 1) {
			t.Errorf("%+v: KL %v and %v, largest %v and %v", form, p.KLMean, f.KLMean, p.KLMax, f.KLMax)
		}
		if len(p.Findings) != 0 || !strings.Contains(p.Effective, fmt.Sprintf("int%d-g%d", form.Bits, form.Group)) {
			t.Errorf("%+v: %s, findings %v", form, p.Effective, p.Findings)
		}
		for _, args := range [][]string{{"inspect", packed}, {"lint", packed}} {
			if o := command(t, args...); o.code != exitGood {
				t.Errorf("%v: exit %d: %s%s", args, o.code, o.out, o.err)
			}
		}
		o := command(t, "verify", source, packed)
		for _, word := range []string{"further from the source", "not the nearest", "not in the source", "not in the output", "panic"} {
			if strings.Contains(o.out+o.err, word) {
				t.Errorf("%+v: verify says %q: %s%s", form, word, o.out, o.err)
			}
		}
		if o.code != exitGood {
			t.Errorf("verify exits %d: %s%s", o.code, o.out, o.err)
		}
	}
}

// Zero points that speak against their label end a measurement with what decides.
func TestMeasureMislabelledZeroPoints(t *testing.T) {
	form := layouttest.Form{Bits: 4, Group: 64, Sym: true, V2: true}
	packed, _ := layouttest.Demo(t, form)
	config := form.Config()
	config["checkpoint_format"] = "gptq"
	layouttest.Configure(t, packed, config)
	args := []string{"demo", "--candidate", packed, "--corpus", "prose", "--chunks", "1", "--no-floor"}
	session := func() string { return filepath.Join(t.TempDir(), "kl.qscope") }
	o := command(t, append([]string{"measure", "--cache", "none", "--session", session()}, args...)...)
	o.refused(t, exitBadInput)
	for _, word := range []string{".qzeros", "zero point 8", "gptq_v2", "--zero-points v2"} {
		if !strings.Contains(o.err, word) {
			t.Errorf("%q is not in %s", word, o.err)
		}
	}
	v2 := measureDoc(t, exitGood, append(args, "--session", session(), "--zero-points", "v2")...).Candidates[0]
	label := measureDoc(t, exitGood, append(args, "--session", session(), "--zero-points", "as-labelled")...).Candidates[0]
	if !(label.KLMean > 10*v2.KLMean) || len(v2.Findings) != 1 || v2.Findings[0].ID != "zero-points-mislabelled" {
		t.Errorf("KL %v as v2 and %v by the label, findings %v", v2.KLMean, label.KLMean, v2.Findings)
	}
	command(t, append([]string{"measure", "--zero-points", "v3"}, args...)...).refused(t, exitUsage)
	if o := command(t, "lint", packed); o.code != exitCheckFailed || !strings.Contains(o.out, "more modules") || strings.Count(o.out, "error ") != 1 {
		t.Errorf("lint exits %d: %s", o.code, o.out)
	}
}

// C28 to C31 through inspect and lint.
func TestPackedCasesThroughCommands(t *testing.T) {
	const cases = "../../quant/layout/testdata/cases/"
	for _, c := range []struct {
		dir, per string
		finding  bool
	}{{"C28-gptq-zero", "v1", false}, {"C28-gptq-zero", "mislabelled", true}, {"C29-act-order", "", false}, {"C30-group-shape", "whole", false}, {"C30-group-shape", "n20", true}, {"C31-awq-order", "", false}} {
		path := filepath.Join(cases+c.dir, c.per)
		if o := command(t, "inspect", path); o.code != exitGood {
			t.Errorf("inspect %s exits %d: %s", path, o.code, o.err)
		}
		o := command(t, "lint", path)
		about := 0
		for _, f := range linted(t, path).Findings {
			if f.Rule == "quantization" || f.Rule == "groups" || f.Rule == "scales" {
				about++
			}
		}
		if (about > 0) != c.finding {
			t.Errorf("lint %s: %d findings about what is packed: %s", path, about, o.out)
		}
		if c.finding {
			expected(t, cases+c.dir).PerDir[c.per].mentions(t, o.out)
			master := filepath.Join(cases, "C29-act-order") // compare says why it has nothing
			o := command(t, "compare", master, path)
			o.refused(t, exitBadInput)
			expected(t, cases+c.dir).PerDir[c.per].mentions(t, o.err)
		}
	}
	unknown := filepath.Join("..", "..", "quant", "gguf", "testdata", "cases", "C10-unknown-type", "unknown-42.gguf")
	o := command(t, "compare", unknown, unknown)
	o.refused(t, exitBadInput)
	if !strings.Contains(o.err, "blk.0.ffn_down.weight is of type 42") {
		t.Error(o.err)
	}
}

package sarif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/lint"
)

func findings() []lint.Finding {
	out := []lint.Finding{
		{ID: "scale-zero", Severity: lint.Error, File: "model-00001-of-00002.safetensors", Tensor: "model.layers.0.mlp.up_proj.weight_scale", Message: "1 of 2 scales are 0", Fix: "again", Evidence: []lint.Evidence{{What: "zero", Value: "1"}}},
		{ID: "index-unlisted", Severity: lint.Warning, File: "a b%/ü#?.safetensors", Tensor: "x", Message: "not listed", More: 3},
		{ID: "scale-zero", Severity: lint.Note, File: "/elsewhere/quantize log", Line: 7, Message: "in a log", Mend: "tokenizer"},
		{ID: "config-missing", Severity: lint.Warning, Message: ""},
		{ID: "of-no-table", Severity: "odd", Tensor: "量子化\u202e\x00\"", Message: "bad\xffbytes"},
		{ID: "tokenizer-truncation", Severity: lint.Error, File: "c:tokenizer.json", Message: "512"},
	}
	return out
}

func written(t testing.TB, r Run) map[string]any {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	return doc
}

// check holds a document against what the standard's schema asks of the parts that
// are written here.
func check(doc map[string]any) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	only := func(where string, o map[string]any, keys ...string) {
		for k := range o {
			if !slices.Contains(keys, k) {
				bad("%s has the property %s", where, k)
			}
		}
	}
	text := func(where string, v any) {
		o, _ := v.(map[string]any)
		if s, ok := o["text"].(string); !ok || s == "" || len(o) != 1 {
			bad("%s is no message: %v", where, v)
		}
	}
	levels := []string{"none", "note", "warning", "error"}
	only("the document", doc, "$schema", "version", "runs")
	if doc["version"] != "2.1.0" {
		bad("version %v", doc["version"])
	}
	runs, _ := doc["runs"].([]any)
	if len(runs) != 1 {
		bad("%d runs", len(runs))
		return wrong
	}
	run, _ := runs[0].(map[string]any)
	only("a run", run, "tool", "invocations", "originalUriBaseIds", "results", "columnKind")
	if k := run["columnKind"]; k != "utf16CodeUnits" && k != "unicodeCodePoints" {
		bad("columnKind %v", k)
	}
	driver, _ := run["tool"].(map[string]any)["driver"].(map[string]any)
	if name, _ := driver["name"].(string); name == "" {
		bad("the driver has no name")
	}
	only("the driver", driver, "name", "semanticVersion", "rules")
	rules, _ := driver["rules"].([]any)
	ids := map[string]bool{}
	for i, v := range rules {
		r, _ := v.(map[string]any)
		only("a rule", r, "id", "shortDescription", "fullDescription", "help", "defaultConfiguration", "properties")
		id, _ := r["id"].(string)
		if id == "" || ids[id] {
			bad("rule %d has the id %q", i, id)
		}
		ids[id] = true
		for _, k := range []string{"shortDescription", "fullDescription", "help"} {
			text("rule "+id+" "+k, r[k])
		}
		if c, _ := r["defaultConfiguration"].(map[string]any); !slices.Contains(levels, fmt.Sprint(c["level"])) {
			bad("rule %s: level %v", id, c["level"])
		}
	}
	for _, v := range run["invocations"].([]any) {
		if _, ok := v.(map[string]any)["executionSuccessful"].(bool); !ok {
			bad("an invocation without executionSuccessful")
		}
	}
	bases, _ := run["originalUriBaseIds"].(map[string]any)
	for name, v := range bases {
		u, err := url.Parse(v.(map[string]any)["uri"].(string))
		if err != nil || !u.IsAbs() || !strings.HasSuffix(u.Path, "/") {
			bad("base %s: %v", name, v)
		}
	}
	results, ok := run["results"].([]any)
	if !ok {
		bad("results are no list")
	}
	for i, v := range results {
		r, _ := v.(map[string]any)
		where := fmt.Sprintf("result %d", i)
		only(where, r, "ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints", "properties")
		text(where, r["message"])
		if !slices.Contains(levels, fmt.Sprint(r["level"])) {
			bad("%s: level %v", where, r["level"])
		}
		k, _ := r["ruleIndex"].(float64)
		if int(k) < 0 || int(k) >= len(rules) || rules[int(k)].(map[string]any)["id"] != r["ruleId"] {
			bad("%s: rule %v is not at %v", where, r["ruleId"], r["ruleIndex"])
		}
		for _, f := range r["partialFingerprints"].(map[string]any) {
			if s, ok := f.(string); !ok || s == "" {
				bad("%s: fingerprint %v", where, f)
			}
		}
		locations, _ := r["locations"].([]any)
		for _, l := range locations {
			l, _ := l.(map[string]any)
			only(where, l, "physicalLocation", "logicalLocations")
			if p, ok := l["physicalLocation"].(map[string]any); ok {
				a, _ := p["artifactLocation"].(map[string]any)
				uri, _ := a["uri"].(string)
				u, err := url.Parse(uri)
				if err != nil || uri == "" || strings.ContainsAny(uri, " \\\"<>") {
					bad("%s: uri %q: %v", where, uri, err)
				} else if base, ok := a["uriBaseId"].(string); ok && (u.IsAbs() || bases[base] == nil) {
					bad("%s: uri %q is not relative to a base: %v", where, uri, base)
				}
				if g, ok := p["region"].(map[string]any); ok {
					if n, _ := g["startLine"].(float64); n < 1 {
						bad("%s: line %v", where, g["startLine"])
					}
				}
			}
			if list, ok := l["logicalLocations"].([]any); ok && len(list) == 0 {
				bad("%s: no logical location", where)
			}
		}
	}
	return wrong
}

// What is written is valid, in the standard's words, and finds its rules.
func TestDocumentIsValid(t *testing.T) {
	for _, r := range []Run{{Tool: "0.1.0", Folder: "/models/a b/ü", Findings: findings(), Failed: true}, {Tool: "0.1.0", Findings: findings()}, {Tool: "0.1.0", Folder: "/"}} {
		doc := written(t, r)
		for _, w := range check(doc) {
			t.Error(w)
		}
		run := doc["runs"].([]any)[0].(map[string]any)
		if n := len(run["results"].([]any)); n != len(r.Findings) {
			t.Errorf("%d results of %d findings", n, len(r.Findings))
		}
		if code := run["invocations"].([]any)[0].(map[string]any)["exitCode"]; code != map[bool]float64{true: 1, false: 0}[r.Failed] {
			t.Errorf("exit code %v", code)
		}
	}
}

// Places, names and lines stand where viewers look for them.
func TestPlaces(t *testing.T) {
	doc := written(t, Run{Tool: "0.1.0", Folder: "/models/m", Findings: findings()})
	results := doc["runs"].([]any)[0].(map[string]any)["results"].([]any)
	for i, want := range []string{
		`{"logicalLocations":[{"fullyQualifiedName":"model.layers.0.mlp.up_proj.weight_scale","kind":"object"}],"physicalLocation":{"artifactLocation":{"uri":"model-00001-of-00002.safetensors","uriBaseId":"CHECKPOINT"}}}`,
		`{"logicalLocations":[{"fullyQualifiedName":"x","kind":"object"}],"physicalLocation":{"artifactLocation":{"uri":"a%20b%25/%C3%BC%23%3F.safetensors","uriBaseId":"CHECKPOINT"}}}`,
		`{"physicalLocation":{"artifactLocation":{"uri":"file:///elsewhere/quantize%20log"},"region":{"startLine":7}}}`,
		``, `{"logicalLocations":[{"fullyQualifiedName":"量子化\u202e\u0000\"","kind":"object"}]}`,
		`{"physicalLocation":{"artifactLocation":{"uri":"./c:tokenizer.json","uriBaseId":"CHECKPOINT"}}}`,
	} {
		locations, _ := results[i].(map[string]any)["locations"].([]any)
		if want == "" {
			if locations != nil {
				t.Errorf("%d: %v", i, locations)
			}
			continue
		}
		var w any
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(locations[0]); string(got) != string(mustJSON(t, w)) {
			t.Errorf("%d: %s, want %s", i, got, mustJSON(t, w))
		}
	}
	if a, b := results[0].(map[string]any)["partialFingerprints"], results[2].(map[string]any)["partialFingerprints"]; fmt.Sprint(a) == fmt.Sprint(b) {
		t.Errorf("two places have one fingerprint: %v", a)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The check finds what it is for.
func TestTheCheckFinds(t *testing.T) {
	for name, break_ := range map[string]func(run map[string]any){
		"a wrong index": func(r map[string]any) { r["results"].([]any)[0].(map[string]any)["ruleIndex"] = 0.0 },
		"a level":       func(r map[string]any) { r["results"].([]any)[0].(map[string]any)["level"] = "fatal" },
		"an empty message": func(r map[string]any) {
			r["results"].([]any)[0].(map[string]any)["message"] = map[string]any{"text": ""}
		},
		"another property":   func(r map[string]any) { r["more"] = 1 },
		"a base that is not": func(r map[string]any) { delete(r, "originalUriBaseIds") },
	} {
		doc := written(t, Run{Tool: "0.1.0", Folder: "/m", Findings: findings()})
		break_(doc["runs"].([]any)[0].(map[string]any))
		if len(check(doc)) == 0 {
			t.Errorf("%s is let through", name)
		}
	}
}

// No text of a finding makes the document invalid.
func FuzzWrite(f *testing.F) {
	f.Add("scale-zero", "model.safetensors", "a.b", "message", "/folder", 3)
	f.Add("x\xff", "../a/..", "\x00", "", "C:\\x", -1)
	f.Add("", "a:b", "", "\u2028", "rel", 0)
	f.Fuzz(func(t *testing.T, id, file, tensor, message, folder string, line int) {
		doc := written(t, Run{Tool: "0.1.0", Folder: "/" + folder, Findings: []lint.Finding{{ID: "k" + id, Severity: lint.Severity(id), File: file, Tensor: tensor, Message: message, Line: line}}})
		if wrong := check(doc); len(wrong) > 0 {
			t.Fatal(wrong)
		}
	})
}

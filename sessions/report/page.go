package report

import (
	"crypto/sha256"
	_ "embed" // page.html, style.css, script.js
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"quantscope/analysis/landscape"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var styleCSS string

//go:embed script.js
var scriptJS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// policy forbids all but this page's own style and script, which it knows by
// their digests: whatever a name in a session holds cannot run or load.
func policy() template.HTML {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return base64.StdEncoding.EncodeToString(sum[:])
	}
	return template.HTML(fmt.Sprintf(
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; base-uri 'none'; form-action 'none'">`,
		hash(styleCSS), hash(scriptJS)))
}

// page is what the template shows.
type page struct {
	Policy template.HTML
	Style  template.CSS
	Script template.JS
	Legend []int // classes of a map's colours

	Title, Summary string
	State          string
	Facts          []string
	Alerts         []string
	Verdicts       []verdict
	Glance         table
	Calibrated     []table
	KL             []table
	Served         bool // there is no checkpoint: gates are all there is
	Gates          []gatePart
	Biases, Tiers  []lookPart
	Maps           []mapFigure
	Grid           string // what the maps leave out
	Spread, Layers []figure
	Prices         []priceFigure
	Keys           []key // of price charts
	Groups         []groupPart
	Worst, Notes   table
	Receipt        []fact
}

type fact struct{ Name, Value string }

// verdict is a sentence on one role of a variant.
type verdict struct {
	Variant, Mark string
	V             int
	Role, Kind    string
	Sign          string
	Sentence      string
}

// figure is a picture with the variant that it is of, or why there is none.
type figure struct {
	Variant, Mark string
	V             int
	Of            string
	Picture       template.HTML
	Why           string
}

type mapFigure struct {
	figure
	Metric, Unit string
	Low, High    string
	Panels       []template.HTML
	Notes        string
	Keys         []string // states that occur: pending, clip, bad
}

type priceFigure struct {
	figure
	Gain     template.HTML
	Verdicts []string
}

type groupPart struct {
	Role   string
	Tables []table
	More   []table // long ones, of less use
}

// WriteHTML writes the report as one HTML file.
func (r *Report) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, r.page()) }

func (r *Report) page() *page {
	n := new(ids)
	p := &page{
		Policy: policy(), Style: template.CSS(styleCSS), Script: template.JS(scriptJS),
		Title: r.title(), Summary: r.Meta.Summary, Glance: r.glance(), Calibrated: r.calibrated(), KL: r.kl(), Served: r.Meta.Served(), Gates: r.gateParts(), Biases: r.biasParts(n), Tiers: r.tierParts(n), Worst: r.worst(), Notes: r.noted(), Receipt: r.receipt(),
	}
	for c := range classes {
		p.Legend = append(p.Legend, c)
	}
	p.State, p.Facts = r.facts()
	p.Alerts = r.Alerts()
	for i := range r.Variants {
		v := &r.Variants[i]
		for _, g := range v.Landscape.Groups {
			p.Verdicts = append(p.Verdicts, verdict{
				Variant: v.Summary.Variant, Mark: sign(v.ID), V: v.ID % 8, Role: g.Role, Kind: string(g.Verdict.Kind),
				Sign: kindSigns[g.Verdict.Kind], Sentence: capital(g.Verdict.Sentence),
			})
		}
	}
	p.Maps, p.Grid = r.maps(n)
	for i := range r.Variants {
		v := &r.Variants[i]
		f := r.figure(v)
		f.Of = "all matrices"
		f.Picture, f.Why = histogram(n, &r.table.Arms[v.ID], v.ID)
		p.Spread = append(p.Spread, f)
		for k := range v.Landscape.Groups {
			g := &v.Landscape.Groups[k]
			if len(g.Layers) < 2 {
				continue
			}
			f := r.figure(v)
			f.Of = g.Role
			f.Picture, f.Why = layerChart(n, g, v.Summary.Variant, v.ID)
			p.Layers = append(p.Layers, f)
		}
		if v.Pricing == nil && v.NoPrice == "" {
			continue
		}
		p.Prices = append(p.Prices, r.priceFigure(n, v))
		if v.Pricing != nil && len(p.Keys) == 0 { // every pricing has the same curves
			p.Keys = priceKeys(v.Pricing)
		}
	}
	for _, role := range r.roles() {
		g := groupPart{Role: role, Tables: []table{r.statistics(role), r.standouts(role), r.tail(role), r.selectors(role), r.clamps(role)}}
		g.More = []table{r.layers(role), r.neighbours(role)}
		p.Groups = append(p.Groups, g)
	}
	return p
}

// kindSigns stand beside the words of verdicts.
var kindSigns = map[landscape.VerdictKind]string{landscape.Flat: "▬", landscape.Structured: "▲", landscape.Unknown: "?"}

func (r *Report) figure(v *Variant) figure {
	return figure{Variant: v.Summary.Variant, Mark: sign(v.ID), V: v.ID % 8}
}

func (r *Report) priceFigure(n *ids, v *Variant) priceFigure {
	f := priceFigure{figure: r.figure(v)}
	if v.Pricing == nil {
		f.Why = capital(v.NoPrice) + "."
		return f
	}
	f.Picture, f.Gain, f.Why = priceCharts(n, v.Pricing)
	f.Verdicts = v.Pricing.Verdicts
	f.Of = "protected as " + v.Pricing.Protect
	return f
}

// maps are the error of every variant, and its deep clips where it has any.
func (r *Report) maps(n *ids) ([]mapFigure, string) {
	maps := len(r.Variants)
	deep := map[int]bool{}
	for i := range r.Variants {
		for k := range r.table.Arms[r.Variants[i].ID].Samples {
			if r.table.Arms[r.Variants[i].ID].Samples[k].Deep > 0 {
				deep[i] = true
				maps++
				break
			}
		}
	}
	g := newGrid(r.table.Items, maps)
	var said []string
	if g.pool > 1 {
		said = append(said, fmt.Sprintf("A column is %d experts and has the worst of them.", g.pool))
	}
	if g.off > 0 {
		said = append(said, counted(g.off, "matrix stands", "matrices stand")+" in no layer and on no map.")
	}
	var out []mapFigure
	for i := range r.Variants {
		out = append(out, r.mapFigure(n, &g, &r.Variants[i], relL2Metric))
		if deep[i] {
			out = append(out, r.mapFigure(n, &g, &r.Variants[i], deepMetric))
		}
	}
	return out, strings.Join(said, " ")
}

func (r *Report) mapFigure(n *ids, g *grid, v *Variant, m metric) mapFigure {
	d := newMap(g, &r.table.Arms[v.ID], m)
	if m.name == deepMetric.name {
		d.marks = false
	}
	f := mapFigure{figure: r.figure(v), Metric: m.name, Unit: m.unit, Low: m.write(d.scale.lo), High: m.write(d.scale.hi)}
	if d.counts[measured] == 0 {
		f.Low, f.High = "", ""
	}
	var said []string
	say := func(s string) { said = append(said, s) }
	for p := range g.panels {
		f.Panels = append(f.Panels, drawPanel(n, g, p, d, v.Summary.Variant, r.table.Items))
	}
	if d.scale.hi < d.all.hi || d.scale.lo > d.all.lo {
		say(fmt.Sprintf("Colours span 99 %% of the tensors; all span %s to %s.", m.write(d.all.lo), m.write(d.all.hi)))
	}
	for _, s := range []struct {
		state cellState
		key   string
		words string
	}{{pending, "pending", "not measured yet"}, {notFinite, "bad", "without a finite figure"}, {failed, "bad", "failed"}} {
		if k := d.counts[s.state]; k > 0 {
			say(counted(k, "tensor ", "tensors ") + s.words + ".")
			if !slices.Contains(f.Keys, s.key) {
				f.Keys = append(f.Keys, s.key)
			}
		}
	}
	switch {
	case d.marks:
		f.Keys = append(f.Keys, "clip")
		say(fmt.Sprintf("%s with deep clips.", counted(d.clipped, "tensor", "tensors")))
	case d.clipped > 0 && m.name != deepMetric.name:
		say(fmt.Sprintf("%s of %s have deep clips, too many to mark.", thousands(int64(d.clipped)), thousands(int64(d.counts[measured]))))
	}
	f.Notes = strings.Join(said, " ")
	return f
}

// capital begins a sentence.
func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

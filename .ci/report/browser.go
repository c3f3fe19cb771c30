//go:build ignore

// Browser opens reports in a headless Chromium, through its debugging pipe, at
// the widths of a phone and a desk, in light and dark, and asserts what a
// reader needs: nothing on the console, nothing loaded, no sideways scrolling of
// the page, readable contrast, tables that sort, maps that can be pointed at, a
// page without scripts, and paper. Pictures go to a folder.
//
//	go run .ci/report/browser.go CHROMIUM FOLDER REPORT.html…
package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// widths of the window in CSS pixels, with the height of its picture.
var windows = []struct{ width, height int }{{390, 844}, {1400, 1000}}

// paper is the width of an A4 page between margins of 1 cm, in CSS pixels.
const paper = 718

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "browser CHROMIUM FOLDER REPORT.html…")
		os.Exit(2)
	}
	b, err := launch(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	bad := 0
	for _, file := range os.Args[3:] {
		for _, w := range windows {
			for _, scheme := range []string{"light", "dark"} {
				problems, err := b.inspect(file, os.Args[2], w.width, w.height, scheme)
				if err != nil {
					problems = append(problems, err.Error())
				}
				fmt.Printf("%-12s %4d px %-5s %s\n", filepath.Base(file), w.width, scheme, said(problems))
				bad += len(problems)
			}
		}
	}
	b.close()
	if bad > 0 {
		os.Exit(1)
	}
}

func said(problems []string) string {
	if len(problems) == 0 {
		return "good"
	}
	return strings.Join(problems, "; ")
}

// inspect opens a report in one window and returns what is wrong with it.
func (b *browser) inspect(file, folder string, width, height int, scheme string) (problems []string, err error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	p, err := b.open()
	if err != nil {
		return nil, err
	}
	defer p.close()
	p.must("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	p.must("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}})
	p.visit("file://" + path)

	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	wide := p.number(`document.documentElement.scrollWidth - document.documentElement.clientWidth`)
	check(wide <= 0, "the page scrolls sideways by %g px: %s", wide, p.text(widest))
	low := p.text(contrast)
	check(low == "", "contrast below 4.5: %s", low)
	check(p.text(`[...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i).join(" ")`) == "", "two elements share an id")
	check(p.number(`document.querySelectorAll("svg[role=img]").length`) > 0, "no pictures")
	check(p.text(`[...document.querySelectorAll("svg[role=img]")].filter(s => !s.querySelector("title")?.textContent || !s.querySelector("desc")?.textContent).length + ""`) == "0", "a picture without title or description")
	check(p.text(`[...document.querySelectorAll("th")].filter(t => !t.scope).length + ""`) == "0", "a table heading without scope")

	name := strings.TrimSuffix(filepath.Base(file), ".html")
	stem := filepath.Join(folder, fmt.Sprintf("%s-%d-%s", name, width, scheme))
	check(p.picture(stem+".png") == nil, "no picture")

	if tables := p.number(`document.querySelectorAll("table.sorts").length`); tables > 0 {
		before := p.text(column)
		p.click(`#worst table.sorts thead th:nth-child(3) button`) // numbers: descending first, as it stands
		down := p.text(column)
		p.click(`#worst table.sorts thead th:nth-child(3) button`)
		up := p.text(column)
		check(up != before && up != down, "a click on a heading changes nothing")
		check(p.text(`document.querySelector("#worst [aria-sort]").getAttribute("aria-sort")`) == "ascending", "the sorted column is not marked")
		check(sorted(up), "the column is not sorted: %.60s", up)
	}
	if p.number(`document.querySelectorAll("svg[data-q]").length`) > 0 {
		tip := p.point(`svg[data-q]`)
		check(strings.Contains(tip, " · "), "pointing at a map says %q", tip)
	}
	check(len(p.said) == 0, "on the console: %s", strings.Join(p.said, ", "))
	check(len(p.loaded) == 1, "%d requests: %s", len(p.loaded), strings.Join(p.loaded, ", "))

	if width > 600 && scheme == "light" {
		data, err := base64.StdEncoding.DecodeString(p.must("Page.printToPDF", object{"preferCSSPageSize": true, "printBackground": true})["data"].(string))
		check(err == nil && strings.HasPrefix(string(data), "%PDF-"), "no PDF")
		if err := os.WriteFile(stem+".pdf", data, 0o644); err != nil {
			return problems, err
		}
		p.must("Emulation.setEmulatedMedia", object{"media": "print"})
		p.must("Emulation.setDeviceMetricsOverride", object{"width": paper, "height": height, "deviceScaleFactor": 1, "mobile": false})
		p.eval(`document.querySelectorAll("details").forEach(d => d.open = true)`)
		wide := p.number(`document.documentElement.scrollWidth - document.documentElement.clientWidth`)
		check(wide <= 0, "on paper %g px are cut off: %s", wide, p.text(cut))
		check(p.picture(filepath.Join(folder, name+"-paper.png")) == nil, "no picture of paper")
		p.must("Emulation.setEmulatedMedia", object{"media": ""})
		p.must("Emulation.setScriptExecutionDisabled", object{"value": true})
		p.visit("file://" + path)
		check(p.number(`document.querySelectorAll("thead button").length`) == 0, "scripts ran")
		check(p.number(`document.querySelectorAll("tbody tr").length`) > 0, "no tables without scripts")
	}
	return problems, p.err
}

// column is the third column of the table of the worst tensors.
const column = `[...document.querySelectorAll("#worst tbody tr")].map(r => r.cells[2].textContent).join(" ")`

// sorted says whether figures rise.
func sorted(text string) bool {
	last := -1.0
	for _, f := range strings.Fields(text) {
		var x float64
		if _, err := fmt.Sscan(f, &x); err != nil {
			continue
		}
		if x < last {
			return false
		}
		last = x
	}
	return true
}

// widest names what reaches beyond the window.
const widest = `[...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll, svg") && e.getBoundingClientRect().right > innerWidth + 0.5).slice(0, 3).map(e => e.tagName + "." + e.className).join(", ")`

// cut names what is wider than the paper.
const cut = `[...document.querySelectorAll("body *")].filter(e => !e.closest("svg") && e.getBoundingClientRect().right > innerWidth + 0.5).slice(0, 3).map(e => e.tagName + " " + e.textContent.trim().slice(0, 30)).join(", ")`

// contrast names text that stands out from its background by less than 4.5 to 1
// (the formula of WCAG 2.1).
const contrast = `(() => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.getClientRects().length || e.closest("script, style, title, desc, [aria-hidden]")) continue;
    const style = getComputedStyle(e);
    const a = light(parse(e.closest("svg") ? style.fill : style.color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(ratio.toFixed(2) + " " + walk.currentNode.textContent.trim().slice(0, 20));
  }
  return bad.slice(0, 3).join(", ");
})()`

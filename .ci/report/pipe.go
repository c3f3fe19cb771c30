//go:build ignore

package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"
)

type object = map[string]any

// patience is how long a command of the browser may take.
const patience = 60 * time.Second

// browser is a Chromium that is told what to do over a pipe: messages of the
// DevTools protocol in JSON, each ended by a zero byte.
type browser struct {
	cmd    *exec.Cmd
	to     *os.File
	from   chan object
	last   int
	folder string
}

func launch(program string) (*browser, error) {
	folder, err := os.MkdirTemp("", "browser")
	if err != nil {
		return nil, err
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &browser{to: ourOut, from: make(chan object, 1024), folder: folder}
	b.cmd = exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+folder, "about:blank")
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4 over there
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	theirIn.Close()
	theirOut.Close()
	go func() {
		defer close(b.from)
		r := bufio.NewReaderSize(ourIn, 1<<20)
		for {
			line, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m object
			if json.Unmarshal(line[:len(line)-1], &m) == nil {
				b.from <- m
			}
		}
	}()
	return b, nil
}

func (b *browser) close() {
	b.send("", "Browser.close", nil)
	done := make(chan error, 1)
	go func() { done <- b.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = b.cmd.Process.Kill()
		<-done
	}
	os.RemoveAll(b.folder)
}

func (b *browser) send(session, method string, params object) int {
	b.last++
	m := object{"id": b.last, "method": method, "params": params}
	if params == nil {
		m["params"] = object{}
	}
	if session != "" {
		m["sessionId"] = session
	}
	data, _ := json.Marshal(m) // of plain values
	b.to.Write(append(data, 0))
	return b.last
}

// page is one tab and what was heard of it.
type page struct {
	b       *browser
	target  string
	session string
	said    []string // errors and warnings on the console
	loaded  []string // addresses of requests
	ready   bool
	err     error // the first
}

func (b *browser) open() (*page, error) {
	p := &page{b: b}
	p.target, _ = p.must("Target.createTarget", object{"url": "about:blank"})["targetId"].(string)
	p.session, _ = p.must("Target.attachToTarget", object{"targetId": p.target, "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.must(domain+".enable", nil)
	}
	return p, p.err
}

func (p *page) close() {
	p.session = ""
	p.must("Target.closeTarget", object{"targetId": p.target})
}

// must calls a method and hears what happens meanwhile.
func (p *page) must(method string, params object) object {
	if p.err != nil {
		return object{}
	}
	id := p.b.send(p.session, method, params)
	for {
		m := p.next()
		if p.err != nil {
			return object{}
		}
		if got, ok := m["id"].(float64); ok && int(got) == id {
			if e, ok := m["error"]; ok {
				p.err = fmt.Errorf("%s: %v", method, e)
			}
			result, _ := m["result"].(object)
			if result == nil {
				result = object{}
			}
			return result
		}
	}
}

// next is the next message, noted where it is an event.
func (p *page) next() object {
	select {
	case m, ok := <-p.b.from:
		if !ok {
			p.err = fmt.Errorf("the browser is gone")
			return nil
		}
		p.hear(m)
		return m
	case <-time.After(patience):
		p.err = fmt.Errorf("the browser does not answer")
		return nil
	}
}

func (p *page) hear(m object) {
	params, _ := m["params"].(object)
	switch m["method"] {
	case "Page.loadEventFired":
		p.ready = true
	case "Runtime.exceptionThrown":
		p.said = append(p.said, fmt.Sprint(params["exceptionDetails"]))
	case "Runtime.consoleAPICalled":
		p.said = append(p.said, fmt.Sprint(params["type"], params["args"]))
	case "Log.entryAdded":
		if e, _ := params["entry"].(object); e != nil {
			p.said = append(p.said, fmt.Sprint(e["level"], ": ", e["text"]))
		}
	case "Network.requestWillBeSent":
		if r, _ := params["request"].(object); r != nil {
			p.loaded = append(p.loaded, fmt.Sprint(r["url"]))
		}
	}
}

func (p *page) visit(address string) {
	p.ready, p.loaded = false, nil
	p.must("Page.navigate", object{"url": address})
	for !p.ready && p.err == nil {
		p.next()
	}
}

// eval is the value of an expression in the page.
func (p *page) eval(expression string) any {
	r := p.must("Runtime.evaluate", object{"expression": expression, "returnByValue": true})
	if e, ok := r["exceptionDetails"]; ok && p.err == nil {
		p.err = fmt.Errorf("%.60s: %v", expression, e)
	}
	v, _ := r["result"].(object)
	return v["value"]
}

func (p *page) number(expression string) float64 {
	v, _ := p.eval(expression).(float64)
	return v
}

func (p *page) text(expression string) string {
	v, _ := p.eval(expression).(string)
	return v
}

// middle scrolls to an element and says where its middle stands in the window.
func (p *page) middle(selector string) (x, y float64) {
	q, _ := json.Marshal(selector)
	v, _ := p.eval(`(() => { const e = document.querySelector(` + string(q) + `); e.scrollIntoView({ block: "center", inline: "center" }); const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()`).([]any)
	if len(v) == 2 {
		x, _ = v[0].(float64)
		y, _ = v[1].(float64)
	}
	return x, y
}

// click presses the left button over an element.
func (p *page) click(selector string) {
	x, y := p.middle(selector)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.must("Input.dispatchMouseEvent", object{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})
	}
}

// point moves over the middle of a map and returns what is said of the cell.
func (p *page) point(selector string) string {
	x, y := p.middle(selector)
	p.must("Input.dispatchMouseEvent", object{"type": "mouseMoved", "x": x, "y": y})
	return p.text(`document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent`)
}

// picture saves the whole page.
func (p *page) picture(file string) error {
	r := p.must("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true, "clip": object{
		"x": 0, "y": 0, "width": p.number("document.documentElement.clientWidth"), "height": min(p.number("document.documentElement.scrollHeight"), 9000), "scale": 1,
	}})
	text, _ := r["data"].(string)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) == 0 {
		return fmt.Errorf("no picture")
	}
	return os.WriteFile(file, data, 0o644)
}

package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"quantscope/analysis/gates"
	"quantscope/sessions"
	"quantscope/views"
)

// JUnit XML as CI systems read it: a suite for each arm with a case for each probe,
// and one for the checks of the measurement.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr,omitempty"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Error   *junitMessage `xml:"error,omitempty"`
		Skipped *junitMessage `xml:"skipped,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// junitOf is a run in JUnit's form. A probe fails where an arm answers fewer than it
// needs or is worse than the baseline, and acceptance, a case of its own, where it is
// below the baseline's; a check that could not be made is skipped,
// which says why.
func junitOf(d *gatesDocument) *junitSuites {
	out := &junitSuites{Name: "quantscope gates " + views.Clean(d.Suite)}
	checks := junitSuite{Name: "measurement"}
	for _, c := range d.Checks {
		k := junitCase{Class: "measurement", Name: c.ID}
		if c.Candidate != "" {
			k.Name += " " + views.Clean(c.Candidate)
		}
		message := &junitMessage{Type: string(c.State), Message: views.Clean(c.Message)}
		switch c.State {
		case gates.CheckPassed:
			k.Out = message.Message
		case gates.CheckFailed:
			k.Failure = message
		default:
			k.Skipped = message
		}
		checks.add(k)
	}
	out.add(checks)
	worse := map[[2]string]string{}
	for _, p := range d.Pairs {
		if p.Worse {
			worse[[2]string{p.Probe, p.Candidate}] = p.Sentence
		}
	}
	for i := range d.Arms {
		out.add(d.junitArm(&d.Arms[i], worse))
	}
	return out
}

func (d *gatesDocument) junitArm(a *gatesArm, worse map[[2]string]string) junitSuite {
	name := views.Clean(a.Candidate)
	s := junitSuite{Name: name, Time: junitTime(a.Seconds)}
	s.Properties = []junitProperty{{"role", string(a.Role)}, {"spec", views.Clean(a.Spec)}, {"suite_sha256", d.SuiteSHA256}, {"session", d.Session}}
	if a.Identity != nil {
		s.Properties = append(s.Properties, junitProperty{"engine", views.Clean(a.Identity.Engine + " " + a.Identity.Version)}, junitProperty{"model", views.Clean(a.Identity.Model)})
	}
	for _, p := range d.Probes {
		if p.Candidate != a.Candidate {
			continue
		}
		k := junitCase{Class: name + "." + views.Clean(p.Group), Name: views.Clean(p.Probe), Time: junitTime(p.Seconds)}
		share := fmt.Sprintf("%d of %d passed, 95 %% interval of the share [%.3f, %.3f], needs %.3f", p.Passed, p.Passes, float64(p.Low), float64(p.High), float64(p.Need))
		sentence, bad := worse[[2]string{p.Probe, p.Candidate}]
		switch {
		case p.Errors > 0:
			k.Error = &junitMessage{Type: "error", Message: fmt.Sprintf("%s did not come; %s", counted(p.Errors, "answer", "answers"), share), Text: d.junitFailing(p)}
		case !p.OK:
			k.Failure = &junitMessage{Type: "need", Message: share, Text: d.junitFailing(p)}
		case bad:
			k.Failure = &junitMessage{Type: "regression", Message: views.Clean(sentence), Text: d.junitFailing(p)}
		default:
			k.Out = share
		}
		s.add(k)
		for i := range d.Acceptance {
			if x := &d.Acceptance[i]; x.Arm == a.Candidate && x.Probe == p.Probe {
				s.add(x.junit(name + "." + views.Clean(p.Group)))
			}
		}
	}
	return s
}

// junitFailing are answers that did not pass, for whoever reads the log.
func (d *gatesDocument) junitFailing(p gatesProbe) string {
	var b strings.Builder
	for _, a := range d.Failing {
		if a.Candidate == p.Candidate && a.Probe == p.Probe {
			fmt.Fprintf(&b, "%s: %s\n  asked  %s\n  answer %s\n", views.Clean(a.Case), views.Clean(a.Reason), views.Clean(shorten(a.Prompt)), views.Clean(shorten(a.Output)))
		}
	}
	return b.String()
}

func junitTime(s sessions.Figure) string {
	if v := float64(s); !math.IsNaN(v) && !math.IsInf(v, 0) && v > 0 {
		return fmt.Sprintf("%.3f", v)
	}
	return ""
}

func (s *junitSuite) add(k junitCase) {
	s.Tests++
	switch {
	case k.Failure != nil:
		s.Failures++
	case k.Error != nil:
		s.Errors++
	case k.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, k)
}

func (o *junitSuites) add(s junitSuite) {
	o.Tests += s.Tests
	o.Failures += s.Failures
	o.Errors += s.Errors
	o.Skipped += s.Skipped
	o.Suites = append(o.Suites, s)
}

// writeJUnit writes the file whole or not at all.
func writeJUnit(path string, d *gatesDocument) (err error) {
	text, err := xml.MarshalIndent(junitOf(d), "", " ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".junit-*")
	if err != nil {
		return environment(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // the error that ended it says more
			_ = os.Remove(f.Name()) // likewise
			err = environment(err)
		}
	}()
	if _, err = f.WriteString(xml.Header + string(text) + "\n"); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

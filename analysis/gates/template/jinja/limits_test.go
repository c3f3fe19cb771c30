package jinja

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var day = time.Date(2026, time.July, 4, 9, 5, 7, 0, time.UTC)

func render(text string, vars map[string]any) (string, error) {
	p, err := Parse(text)
	if err != nil {
		return "", err
	}
	return p.Render(vars, func() time.Time { return day })
}

// TestMaliciousTemplates end, and say why.
func TestMaliciousTemplates(t *testing.T) {
	deep := strings.Repeat
	for _, c := range []struct{ text, want string }{
		{"{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps"},
		{"{% for a in range(99999) %}{{ range(99999) | length }}{% endfor %}", "makes more than"},
		{"{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}", "steps"},
		{"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested more than"},
		{"{% for x in [[]] recursive %}{{ loop([x]) }}{% endfor %}", "nested more than"},
		{"{{ 'a' * 9999999999 }}", "larger than"},
		{"{{ 'a' * 9223372036854775807 }}", "larger than"},
		{"{{ [1] * 99999999 }}", "larger than"},
		{"{% set x = 'aaaaaaaaaaaaaaaa' * 1000000 %}{% for i in range(99) %}{{ x }}{% endfor %}", "longer than"},
		{"{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "larger than"},
		{"{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "than"},
		{"{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% endfor %}", "than"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "larger than"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(999) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}", "nested more than"},
		{"{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}", "than"},
		{"{% set ns = namespace(x=1) %}{% set ns.x = ns %}{{ ns.x.x.x }}", "no text"},
		{"{% set x %}{% for a in range(99999) %}{% for b in range(99) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}{% endset %}", "than"},
		{"{{ 'a'.center(999999999) }}", "larger than"},
		{"{{ 'x' | indent(999999999) }}", "larger than"},
		{"{{ '%99999999d' % 1 }}", "too wide"},
		{"{{ range(100001) }}", "range has more than"},
		{"{{ range(-9223372036854775807, 9223372036854775807) }}", "range has more than"},
		{"{{ 10 ** 99 }}", "too large"},
		{"{{ 2 ** 9223372036854775807 }}", "too large"},
		{"{{ 9223372036854775807 + 1 }}", "too large"},
		{"{{ [1, 2] | batch(99999999, 'x') | list }}", "larger than"},
		{"{{ '" + deep("a", 100) + "'.replace('', 'x' * 60000000) }}", "than"},
		{"{{ " + deep("(", 5000) + "1" + deep(")", 5000) + " }}", "nested more than"},
		{"{{ " + deep("[", 5000) + deep("]", 5000) + " }}", "nested more than"},
		{"{{ " + deep("-", 5000) + "1 }}", "nested more than"},
		{"{{ " + deep("not ", 5000) + "1 }}", "nested more than"},
		{"{{ 1" + deep("+1", 5000) + " }}", "in a row"},
		{"{{ a" + deep(".a", 5000) + " }}", "in a row"},
		{"{{ a" + deep("|upper", 5000) + " }}", "in a row"},
		{deep("{% if 1 %}", 5000) + deep("{% endif %}", 5000), "nested more than"},
		{"{% for " + deep("(", 5000) + "a" + deep(")", 5000) + " in b %}", "nested more than"},
		{"{% include '/etc/passwd' %}", "tag include is not offered"},
		{"{% import 'x' as y %}", "tag import is not offered"},
		{"{% from 'x' import y %}", "tag from is not offered"},
		{"{% extends 'x' %}", "tag extends is not offered"},
		{"{% block x %}{% endblock %}", "tag block is not offered"},
	} {
		_, err := render(c.text, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v, want %s", c.text, err, c.want)
		}
		if err != nil && (len(err.Error()) > 1000 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%.80s: a long error: %.200s", c.text, err)
		}
	}
}

// TestInputStays: a template cannot change what it was given.
func TestInputStays(t *testing.T) {
	m := NewDict().Set("content", "x")
	vars := map[string]any{"messages": NewList(m)}
	text := "{% set messages = messages + [1] %}{% set m = messages[0] %}{% for m in messages[:1] %}{% set m = 5 %}{% endfor %}{{ messages | length }}"
	if got, err := render(text, vars); got != "2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if l := vars["messages"].(*List); len(l.Items) != 1 || m.Len() != 1 || len(vars) != 1 {
		t.Error("the input was changed")
	}
}

// TestRaised: what a template refuses is told apart from what it does wrong.
func TestRaised(t *testing.T) {
	_, err := render("a{{ raise_exception('Roles must ' ~ x) }}", map[string]any{"x": "alternate"})
	var r *Raised
	if !errors.As(err, &r) || r.Message != "Roles must alternate" {
		t.Errorf("%v", err)
	}
}

// TestStrftime: C's formats on a day whose numbers are all different.
func TestStrftime(t *testing.T) {
	for format, want := range map[string]string{
		"%d %B %Y": "04 July 2026", "%Y-%m-%d": "2026-07-04", "%H:%M:%S": "09:05:07", "%-d %b %y": "4 Jul 26", "%A, %a": "Saturday, Sat",
		"%j": "185", "%I %p": "09 AM", "%e|%%|%": " 4|%|%", "%u %w": "6 6", "%F %T": "2026-07-04 09:05:07",
	} {
		if got, err := render("{{ strftime_now('"+format+"') }}", nil); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", format, got, err, want)
		}
	}
	if _, err := render("{{ strftime_now('%Q') }}", nil); err == nil {
		t.Error("an unknown format is not refused")
	}
}

// TestInvalidUTF8 stays byte for byte where a template passes it on.
func TestInvalidUTF8(t *testing.T) {
	vars := map[string]any{"s": "a\xff\xeb\x84b\xffC"}
	for text, want := range map[string]string{
		"{{ s }}": "a\xff\xeb\x84b\xffC", "{{ s[1:] }}": "\xff\xeb\x84b\xffC", "{{ s | trim }}": "a\xff\xeb\x84b\xffC", "{{ s | upper }}": "A\xff\xeb\x84B\xffC",
		"{{ s | lower }}": "a\xff\xeb\x84b\xffc", "{{ s | length }}": "7", "{{ s.split('b')[1] }}": "\xffC", "{{ s | tojson }}": "\"a\xff\xeb\x84b\xffC\"",
		"{{ s | capitalize }}": "A\xff\xeb\x84b\xffc", "{{ s | title }}": "A\xff\xeb\x84b\xffc",
	} {
		if got, err := render(text, vars); got != want || err != nil {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// FuzzTemplate: any text parses and renders, or is an error of one line.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"{% for m in messages %}{{ m.role }}{{ loop.index }}{% endfor %}", "{%- set ns = namespace(a=1) -%}{{ ns.a ~ 'x' | upper }}",
		"{% macro m(a, b=1) %}{{ a }}{% endmacro %}{{ m(1) }}", "{{ d | tojson(indent=2) }}", "{{ s[::-1] }}{{ l[1:] }}", "{# x #}{% raw %}{{ }}{% endraw %}",
		"{{ '%s' % 1 }}{{ '{}'.format(2) }}", "{% if a is defined and b in c %}{% elif x %}{% else %}{% endif %}", "{{ l | map('string') | join(',') }}",
		"{% call(x) m() %}{% endcall %}{% filter upper %}{% endfilter %}", "{{ 1 if 2 else 3 }}{{ -1 ** 2 // 0.5 }}",
	} {
		f.Add(s)
	}
	vars := map[string]any{"messages": NewList(NewDict().Set("role", "user").Set("content", "é\xff")), "d": NewDict().Set("a", int64(1)), "s": "héllo",
		"l": NewList(int64(1), "x", nil, 2.5), "tools": nil}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		if _, err := render(text, vars); err != nil && strings.Contains(strings.TrimSpace(err.Error()), "\n") {
			t.Errorf("%q: %q", text, err)
		}
	})
}

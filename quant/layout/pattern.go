package layout

import (
	"strings"
	"unicode"

	"quantscope/quant/recipe"
)

// Entry is one pattern of a config.
type Entry struct {
	File    string // that it stands in
	Section string // ignore, exclude_modules, config_groups.group_0.targets, …
	Pattern string
	Matches int    // modules of the checkpoint that it matches
	Unread  string // why it cannot be held against names, "" where it can

	override *override // of a pattern of dynamic

	style   style
	matcher recipe.Matcher // nil for a class of modules, and where Unread
}

// style is how a library reads a pattern.
type style uint8

const (
	exactOrRegex style = iota // compressed-tensors: a whole name, re: from the start of the name, or a class
	wildcards                 // ModelOpt: fnmatch over the whole name; a module's name covers what is below it
	anywhere                  // AutoAWQ: anywhere in the name
)

// Targets says whether the entry names what is quantized, not what is left out.
func (e *Entry) Targets() bool {
	return e.override != nil && !e.override.skips || strings.HasSuffix(e.Section, ".targets") || e.Section == "quantized_layers"
}

const linear = "Linear"

func newEntry(file, section, pattern string, s style) Entry {
	e := Entry{File: file, Section: section, Pattern: pattern, style: s}
	switch {
	case pattern == linear || s == anywhere:
	case isClass(pattern):
		e.Unread = "a class of modules, which names do not show"
	case s == wildcards || strings.HasPrefix(pattern, "re:"):
		m, err := recipe.ParseTarget(pattern)
		if err != nil {
			e.Unread = err.Error()
		}
		e.matcher = m
	}
	return e
}

// isClass tells a Python class, as in Qwen3MoeSparseMoeBlock, from a module.
func isClass(pattern string) bool {
	if pattern == "" || !unicode.IsUpper(rune(pattern[0])) {
		return false
	}
	return !strings.ContainsFunc(pattern, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// match holds the entry against a module.
func (e *Entry) match(module string, isLinear bool) bool {
	switch {
	case e.Unread != "":
		return false
	case e.Pattern == linear && e.override == nil:
		return isLinear
	case e.Pattern == module:
		return true
	case e.style == anywhere:
		return strings.Contains(module, e.Pattern)
	case e.matcher == nil:
		return false
	case e.matcher.Match(module):
		return true
	}
	return e.style == wildcards && strings.HasPrefix(module, e.Pattern) && module[len(e.Pattern)] == '.'
}

// Package jinja runs chat templates: the part of the Jinja language that
// transformers offers them, in its sandbox, with its settings (trim_blocks,
// lstrip_blocks, loop controls, generation blocks, raise_exception, strftime_now and
// a tojson of its own).
//
// Promises: what renders, renders as Jinja 3 under transformers does, byte for byte;
// what is not offered is refused by its name when the template is parsed. A template
// is not trusted: it reads no file, changes none of its input, and its steps, its
// depth and the bytes that it makes are bounded. Keys of mappings keep their order.
package jinja

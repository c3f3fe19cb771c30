// Package chat is how gates talk to a language model, wherever it runs: what is
// asked, what comes back, who answered, and what it counted meanwhile.
//
// Promises: text is kept as it came, byte for byte, invalid UTF-8 included; what was
// not told is not known, never zero; nothing here reads a file or opens a
// connection.
package chat

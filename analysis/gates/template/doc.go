// Package template makes of a conversation the text that a model was trained on, by
// the chat template of its checkpoint, and takes tool calls out of what it writes.
//
// Promises: a template renders what transformers' apply_chat_template renders, byte
// for byte, or is refused with its reason; no template is guessed. What a model writes
// as a call and is none stays in the text, whole.
package template

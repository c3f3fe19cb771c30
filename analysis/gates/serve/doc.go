// Package serve offers a candidate over HTTP as servers of the OpenAI kind do: chat
// and text completions, whole or streamed, tools, log probabilities, models, tokenize,
// and counters under vLLM's names.
//
// Promises: a bad request gets an error in OpenAI's form and never ends the server; a
// parameter that would change an answer is honoured or refused by its name, never
// ignored; bodies, headers and waits are bounded; a client that goes away, or does not
// read, ends its answer and no other's; ending the server lets answers end first, for
// a while.
package serve

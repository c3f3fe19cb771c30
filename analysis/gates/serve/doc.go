// Package serve offers a candidate over HTTP as servers of the OpenAI kind do: chat
// and text completions, whole or streamed, tools, log probabilities, models, tokenize,
// and counters under vLLM's names.
//
// Promises: it listens on the loopback unless told otherwise; a bad request gets an
// error in OpenAI's form and never ends the server; bodies are bounded; a client that
// goes away ends its answer; ending the server lets answers end first, for a while.
package serve

// Package openaitest is a server of the OpenAI kind for tests: it answers by a
// script, and misbehaves in every way that a client has to bear.
//
// Promises: nothing in it waits for a clock: what hangs, hangs until the client goes
// away or the test ends; texts go out byte for byte, those that are no UTF-8 too.
package openaitest

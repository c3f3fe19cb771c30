// Package sessions is what a run leaves behind and how it is watched: the
// session file, the engine that runs jobs into it, and the feed that a live
// run, a finished session and a replay share. docs/session.md is the contract of
// the file.
//
// Promises. Delivery: every event of a run reaches the file in order and is
// durable within a second; a feed hands its reader events in order and never
// loses one, and of the records of one (variant, tensor) it may drop all but
// the latest. Truth: a figure that is read has passed a checksum; what of a
// damaged file is lost is said, not guessed. Concurrency: one writer a file, held
// by a lock that names its owner; any number of readers. A feed has one reader;
// Detail, RowErrors and the methods of Runner and Player may be called from any
// goroutine. Nothing a reader does can block a worker.
//
// Memory: weights are held within Options.MemBytes; a matrix larger than its share
// comes in pieces, and its record is the same bit for bit. Exports: what a run
// writes was quantized once, for the record and the file.
//
// The way through it: Start opens a Job (options.go, wire.go, stored.go), finds or
// makes the file (start.go, resume.go, writer.go) and launches an engine (engine.go),
// whose workers (work.go, claim.go, plan.go) take tensors through the kernels
// (pieces.go, measure.go, outcome.go) and into an export (exporting.go), and whose
// recorder (recorder.go) numbers events, appends them and shows them in a
// Mailbox. Readers load a file (load.go, loadtaps.go) and follow it (follow.go)
// or play it (timeline.go, replay.go); merge.go makes one of several.
//
// Measurements of KL divergence go the same way: a request is opened
// (yardparties.go, yardstart.go) and measured, one at a time (yarddesk.go), for a
// live or a saved session (yardmeasure.go); a setup and then scores of chunks are its
// events (yardwire.go, yardcode.go), and readers use those that fit (yardbook.go).
package sessions

// Package sessions is what a run leaves behind and how it is watched: the
// session file, the engine that runs jobs into it, and the feed that a live
// run, a finished session and a replay share.
//
// Promises. Delivery: every event of a run reaches the file in order and is
// durable within a second; a feed hands its reader events in order and never
// loses one, and of the records of one (variant, tensor) it may drop all but
// the latest. Concurrency: one writer a file, held by a lock that names its
// owner; any number of readers. A feed has one reader. Nothing a reader does
// can block a worker.
package sessions

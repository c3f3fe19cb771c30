package serve

import (
	"net/http"

	"quantscope/analysis/gates/local"
)

// Options of a server.
type Options struct {
	Model   string            // the name that it serves; "": the candidate's label
	Key     string            // that clients must send; "": none
	Version string            // of the program
	Log     func(line string) // told of each request that ended; may be nil
}

// Handler serves an engine.
func Handler(e *local.Engine, o Options) http.Handler {
	return http.NotFoundHandler()
}

package serve

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// Grace is how long answers may go on when a server ends.
const Grace = 10 * time.Second

// ErrCut says that answers were broken off when the server ended.
var ErrCut = errors.New("answers were broken off")

// Serve answers on a listener until ctx is done. Answers that are being made then have
// grace to end, less where hard is done sooner; those that do not are broken off, which
// is ErrCut. The listener is closed in any case.
func (s *Server) Serve(ctx, hard context.Context, l net.Listener, grace time.Duration) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: s.o.Slow, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    log.New(io.Discard, "", 0), // of connections that break; the log of requests says what was answered
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		return errors.Join(err, h.Close())
	case <-ctx.Done():
	}
	s.Drain()
	wait, stop := context.WithTimeout(hard, grace)
	defer stop()
	err := h.Shutdown(wait)
	if err != nil {
		s.cut.Store(true)
		cut()
		late, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // errors still go out
		defer stop()
		_ = h.Shutdown(late) // what does not end now is closed
		err = errors.Join(ErrCut, h.Close())
	}
	<-ended
	return err
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"quantscope/sessions"
)

func newReplay(std streams) *cobra.Command {
	screen := screenFlags{}
	var speed float64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay SESSION",
		Short: "Play a session back as it happened",
		Long: `replay plays a saved session on the screens that showed it live. Without a
terminal it prints the session's log with its times, then the table.`,
		Example: "  quantscope replay run.qscope --speed 8",
		Args:    exactly(1, "replay takes one session file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(speed >= 0.25 && speed <= 64) { // NaN is neither
				return usage(fmt.Errorf("--speed %g: from 0.25 to 64", speed))
			}
			if err := present(args[0]); err != nil {
				return err
			}
			if err := screen.check(); err != nil {
				return err
			}
			if asJSON || !std.terminal {
				return printReplay(std, args[0], asJSON)
			}
			open := func() (sessions.Feed, error) { return sessions.OpenReplay(args[0], speed) }
			return showSaved(cmd.Context(), std, args[0], open, screen)
		},
	}
	screen.bind(cmd)
	cmd.Flags().Float64Var(&speed, "speed", 1, "times real time, 0.25 to 64")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// replayDocument is the --json output of replay.
type replayDocument struct {
	quantizeDocument
	Events []replayEvent `json:"events"`
}

type replayEvent struct {
	Seq     int64   `json:"seq"`
	Seconds float64 `json:"seconds"`
	Kind    string  `json:"kind"`
	eventLine
}

func printReplay(std streams, path string, asJSON bool) error {
	st, err := savedState(path)
	if err != nil {
		return err
	}
	doc := replayDocument{quantizeDocument: document(path, st), Events: []replayEvent{}}
	for _, e := range st.Log {
		r := replayEvent{Seq: e.Seq, Seconds: float64(e.AtUS) / 1e6, Kind: string(e.Kind), eventLine: eventLine{Message: e.Message}}
		if e.Variant >= 0 && e.Variant < len(st.Variants) {
			r.Variant = st.Variants[e.Variant].Name
		}
		if e.Tensor >= 0 && e.Tensor < len(st.Tensors) {
			r.Tensor = st.Tensors[e.Tensor].Name
		}
		doc.Events = append(doc.Events, r)
	}
	if asJSON {
		return printJSON(std.out, doc)
	}
	t := newReport(std.out)
	var rows [][]string
	for _, e := range doc.Events {
		rows = append(rows, []string{fmt.Sprintf("%.3f", e.Seconds), e.Kind, e.Variant, e.Tensor, e.Message})
	}
	t.table([]string{">seconds", "event", "variant", "tensor", "message"}, rows)
	t.line("")
	if t.err != nil {
		return t.err
	}
	return printRun(std.out, path, st)
}

// savedState is all that a session file holds.
func savedState(path string) (*sessions.State, error) {
	feed, err := sessions.OpenSession(path)
	if err != nil {
		return nil, err
	}
	st := feed.Snapshot()
	return st, feed.Close()
}

// printSession prints a saved session as quantize prints a run.
func printSession(std streams, path string, asJSON bool) error {
	st, err := savedState(path)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(std.out, document(path, st))
	}
	return printRun(std.out, path, st)
}

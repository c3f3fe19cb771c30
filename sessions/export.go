package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quantscope/kernels"
)

// line is one measurement as it is exported.
type line struct {
	variant  *Variant
	tensor   *Tensor
	seq      int64
	tap      kernels.Tap // zero where it failed
	rec      Record
	failure  string       // why there are no figures, "" where there are
	trade    *CalibMatrix // of a calibrated variant; nil where none is known
	storedAs string       // scheme and methods of the tensor's group; "" where the variant says it
}

// exportRows is how many measurements an export holds in memory at once.
const exportRows = 2048

// eachLine hands the newest measurement of each (variant, tensor) to f, by variant,
// as they were added or by name, and tensor. What f gets is valid until it returns. A damaged session is refused
// before f gets anything: an incomplete export must not look whole.
func eachLine(ctx context.Context, path string, byName bool, f func(l *line) error) error {
	whole, err := loadFile(ctx, path)
	if err != nil {
		return err
	}
	if whole.damage.any() {
		return &FileError{Path: path, Reason: "is damaged, so it is not exported: " + whole.damage.String()}
	}
	st, seqs := whole.st, newestSeqs(whole.st)
	st.Records, st.Log, whole = nil, nil, nil // they may be large, and what follows does not need them
	r, err := openReader(ctx, path)
	if err != nil {
		return err
	}
	defer r.Close()
	var own error // of f, which is not the session's
	err = withConn(ctx, r, func(c *sql.Conn) error {
		if err := checkEnds(ctx, c, path); err != nil {
			return err
		}
		order := make([]int, len(st.Variants))
		for v := range order {
			order[v] = v
		}
		if byName {
			slices.SortFunc(order, func(a, b int) int { return strings.Compare(st.Variants[a].Name, st.Variants[b].Name) })
		}
		for _, v := range order {
			trades := st.Trades(v)
			for t := 0; t < len(st.Tensors); t += exportRows {
				to := min(t+exportRows, len(st.Tensors))
				if err := exportSome(ctx, c, st, v, t, seqs[v][t:to], func(l *line) error {
					if trades != nil {
						l.trade = trades[l.tensor.ID]
					}
					own = f(l)
					return own
				}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if own != nil {
		return own
	}
	return readError(ctx, path, err)
}

// newestSeqs are the events that hold the records of a state, by variant and
// tensor; 0 where there is none.
func newestSeqs(st *State) [][]int64 {
	seqs := make([][]int64, len(st.Records))
	for v, rs := range st.Records {
		seqs[v] = make([]int64, len(rs))
		for t := range rs {
			seqs[v][t] = rs[t].Seq
		}
	}
	return seqs
}

// checkEnds refuses a file whose last events are gone: that the events are
// numbered without gaps does not tell, but the tables that are derived from them
// do.
func checkEnds(ctx context.Context, c *sql.Conn, path string) error {
	const query = "select (select coalesce(max(seq), 0) from events), max((select coalesce(max(seq), 0) from taps), (select coalesce(max(seq), 0) from log))"
	var last, derived int64
	switch err := c.QueryRowContext(ctx, query).Scan(&last, &derived); {
	case damaged(err) || ctx.Err() != nil:
		return err
	case err == nil && derived > last: // other errors: the tables are not there, and the events are
		return &FileError{Path: path, Reason: fmt.Sprintf("is damaged, so it is not exported: events %d to %d are gone", last+1, derived)}
	}
	return nil
}

// exportSome exports the events seqs, which are the newest of tensors from one
// on under one variant, or 0.
func exportSome(ctx context.Context, c *sql.Conn, st *State, variant, from int, seqs []int64, f func(l *line) error) error {
	want := make([]byte, 0, 8*len(seqs))
	for _, s := range seqs {
		want = append(strconv.AppendInt(want, s, 10), ',')
	}
	next, recipe := 0, st.RecipeOf(variant)
	skip := func() {
		for next < len(seqs) && seqs[next] == 0 {
			next++
		}
	}
	const query = "select e.seq, e.at_us, e.kind, e.variant, e.tensor, e.payload, e.crc from json_each(?) w cross join events e on e.seq = w.value"
	err := each(ctx, c, query, func(row []driver.Value) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e, err := scanEvent(row)
		skip()
		if next == len(seqs) || e.Seq != seqs[next] {
			return &FileError{Path: st.Meta.Path, Reason: fmt.Sprintf("is damaged: event %d is not where it belongs", e.Seq)}
		}
		tensor := from + next
		next++
		if err == nil && (e.Variant != variant || e.Tensor != tensor) {
			err = errors.New("it is about another tensor than before")
		}
		l := line{variant: &st.Variants[variant], tensor: &st.Tensors[tensor], seq: e.Seq, rec: e.rec}
		if recipe != nil {
			how, _ := st.How(variant, tensor)
			l.storedAs = how.Name
		}
		switch {
		case err != nil:
		case e.Kind == EventFailed:
			l.failure = e.Message
		default:
			err = decodeTap(e.payload, &l.tap)
		}
		if err != nil {
			return &FileError{st.Meta.Path, fmt.Sprintf("is damaged: event %d", e.Seq), err}
		}
		return f(&l)
	}, "["+strings.TrimSuffix(string(want), ",")+"]")
	if skip(); err == nil && next < len(seqs) {
		return &FileError{Path: st.Meta.Path, Reason: fmt.Sprintf("is damaged: event %d is missing", seqs[next])}
	}
	return err
}

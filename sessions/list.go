package sessions

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quantscope/quant/lockfile"
)

// Info is what can be said of a session file without reading its records.
type Info struct {
	Meta     Meta
	Bytes    int64     // of the file, its write-ahead log included
	Modified time.Time // last change of the file or its log
	Tensors  int
	Variants []Variant
	Settings map[string]string // what the numbers depend on, by name
	Progress Progress          // no rates, and not the variant
	Yards    []*Yard           // measurements of KL divergence, without their chunks
	Gates    []*GateRun        // runs of gates, without their answers
	Biases   []*BiasRun        // looks at biases through depth, without what they found
	Tiers    []*TierRun        // runs of a hot tier, without their windows
	Writer   int               // process that writes it now, 0 where none does
}

// List describes the sessions of a folder, newest first, and says of each file
// that is called *.qscope and cannot be read why not. A folder that is not there
// has none.
func List(dir string) ([]Info, []error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var infos []Info
	var errs []error
	if err != nil {
		errs = append(errs, pathError(dir, err))
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), Extension) || e.IsDir() {
			continue
		}
		info, err := Inspect(filepath.Join(dir, e.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(a.Meta.Path, b.Meta.Path))
	})
	return infos, errs
}

// Inspect describes one session file.
func Inspect(path string) (Info, error) {
	ctx := context.Background()
	owner, alive := lockfile.Holder(path + lockSuffix)
	r, err := openReader(ctx, path)
	if err != nil {
		return Info{}, err
	}
	defer r.Close()
	var info Info
	err = withConn(ctx, r, func(c *sql.Conn) error {
		l := &loaded{damage: damage{missing: r.missing}}
		if _, err := l.loadNotes(ctx, c, path, math.MaxInt64, false); err != nil {
			return err
		}
		if err := l.begin(path); err != nil {
			return err
		}
		l.finish(&Record{})
		if !alive {
			l.st.interrupt()
		}
		info = Info{Meta: l.st.Meta, Tensors: len(l.st.Tensors), Variants: l.st.Variants, Settings: l.settings, Progress: l.st.Progress, Yards: l.st.Yards, Gates: l.st.Gates, Biases: l.st.Biases, Tiers: l.st.Tiers}
		info.Progress.Total = l.st.measurements()
		err := c.QueryRowContext(ctx, "select count(*) filter (where not failed), count(*) filter (where failed) from taps").
			Scan(&info.Progress.Done, &info.Progress.Failed)
		if err != nil { // the typed tables are not there; the events are
			whole, err := load(ctx, r, nil)
			if err != nil {
				return err
			}
			info.Progress.Done, info.Progress.Failed = whole.st.Progress.Done, whole.st.Progress.Failed
		}
		return nil
	})
	if err != nil {
		return Info{}, readError(ctx, path, err)
	}
	if alive {
		info.Writer = max(owner.PID, 1)
	}
	for _, suffix := range []string{"", "-wal"} {
		st, err := os.Stat(path + suffix)
		if err != nil {
			continue // there need not be a log
		}
		info.Bytes += st.Size()
		if st.Size() > 0 && st.ModTime().After(info.Modified) {
			info.Modified = st.ModTime()
		}
	}
	return info, nil
}

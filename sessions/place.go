package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// Extension is what the name of a session file ends in.
const Extension = ".qscope"

// createDefault makes a session in the default place, under a name that is
// free: demo-1129-1702.qscope, then demo-1129-1702-2.qscope and so on.
func createDefault(ctx context.Context, job *Job, o Options, asked []Quantizer) (*opened, error) {
	dir, err := DefaultDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, envError(dir, "the folder for sessions cannot be made (name a file with --session)", err)
	}
	stem := plainName(job.Name) + o.Clock.Now().Local().Format("-0102-1504")
	const most = 1000
	for i := 1; i <= most; i++ {
		path := filepath.Join(dir, stem+Extension)
		if i > 1 {
			path = filepath.Join(dir, fmt.Sprintf("%s-%d%s", stem, i, Extension))
		}
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		lock, err := lockSession(path)
		if errors.As(err, new(*BusyError)) {
			continue // another process makes it at this moment
		}
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(path); err == nil {
			_ = lock.Release() // it has come to be meanwhile
			continue
		}
		s, err := newSession(job, o, asked, path)
		if err != nil {
			return nil, errors.Join(err, lock.Release())
		}
		if s.file, err = createAndOpen(ctx, path, lock, s.events); err != nil {
			return nil, err
		}
		s.events = nil
		return s, nil
	}
	return nil, &EnvError{Path: dir, Reason: fmt.Sprintf("holds %d sessions of this minute", most)}
}

// plainName makes a name that every file system takes.
func plainName(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	s = strings.Trim(s, "-.")
	const longest = 60 // runes
	if r := []rune(s); len(r) > longest {
		s = string(r[:longest])
	}
	if s == "" {
		return "session"
	}
	return s
}

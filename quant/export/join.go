package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Join finishes an export whose parts were written apart: when all of them are
// in the folder, shards, side files and marks, it writes index and config and
// makes the folder whole. Parts that were written to folders of their own are
// brought together by moving all their files into one. Result.Whole is false
// where parts are missing. Every shard is read: one that is not what its part
// wrote is an error.
func Join(ctx context.Context, dir string) (Result, error) {
	d := folder{dir, joinTag, osFiles{}}
	_, plan := os.Stat(d.path(planName))
	_, joined := os.Stat(d.path(joinedName))
	if plan != nil && joined != nil {
		return Result{}, fmt.Errorf("%w %s: holds no unfinished export", ErrOutput, dir)
	}
	return d.join(ctx, true)
}

// join is Join, which reads the shards only where it is told to.
func (d folder) join(ctx context.Context, read bool) (Result, error) {
	text, err := os.ReadFile(d.path(joinedName))
	if err == nil {
		return d.removeMarks(text)
	}
	if text, err = os.ReadFile(d.path(planName)); err != nil {
		if isMissing(err) && d.joinedMeanwhile() {
			return Result{Whole: true}, nil
		}
		return Result{}, fmt.Errorf("%w %s: holds no unfinished export: %w", ErrOutput, d.dir, errors.Unwrap(systemError(d.path(planName), err)))
	}
	plan, err := decodePlan(text)
	if err != nil {
		return Result{}, fmt.Errorf("%w %s: %w", ErrOutput, d.path(planName), err)
	}
	missing, shards, err := d.parts(digestOf(text), len(plan.Shards))
	switch {
	case isMissing(err) && d.joinedMeanwhile():
		return Result{Whole: true}, nil
	case err != nil || len(missing) > 0:
		return Result{Missing: missing}, err
	}
	if err := d.check(ctx, &plan, shards, read); err != nil {
		return Result{}, err
	}
	for _, t := range plan.Texts {
		if _, err := d.write(t.Name, strings.NewReader(t.Text)); err != nil {
			return Result{}, err
		}
	}
	err = d.fs.rename(d.path(planName), d.path(joinedName))
	if err == nil {
		err = d.fs.syncFolder(d.dir)
	}
	if err != nil && !(isMissing(err) && d.joinedMeanwhile()) {
		return Result{}, systemError(d.path(joinedName), err)
	}
	return d.removeMarks(text)
}

// joinedMeanwhile says whether another part has made the folder whole, or is
// about to.
func (d folder) joinedMeanwhile() bool {
	if _, err := os.Stat(d.path(planName)); !isMissing(err) {
		return false
	}
	_, err := os.Stat(d.path(configName))
	return err == nil
}

// parts reads what the parts have finished; there are no more of them than
// shards.
func (d folder) parts(digest string, most int) (missing []int, shards map[string]partShard, err error) {
	marks, err := filepath.Glob(filepath.Join(escapeGlob(d.dir), partMarks))
	if err != nil {
		return nil, nil, systemError(d.dir, err)
	}
	of, seen := 0, map[int]bool{}
	shards = map[string]partShard{}
	for _, path := range marks {
		p, err := readPart(path)
		switch {
		case err != nil:
			return nil, nil, err
		case p.Plan != digest:
			return nil, nil, fmt.Errorf("%w %s: is a part of another export", ErrOutput, path)
		case p.Of < 1 || p.Of > most || p.Part < 1 || p.Part > p.Of:
			return nil, nil, fmt.Errorf("%w %s: is part %d of %d of an export of %d shards", ErrOutput, path, p.Part, p.Of, most)
		case of != 0 && p.Of != of:
			return nil, nil, fmt.Errorf("%w %s: is one of %d parts, another file says %d", ErrOutput, path, p.Of, of)
		}
		of = p.Of
		if !p.Done {
			continue
		}
		seen[p.Part] = true
		for _, s := range p.Shards {
			if _, twice := shards[s.Name]; twice {
				return nil, nil, fmt.Errorf("%w %s: two parts have %s", ErrOutput, path, s.Name)
			}
			shards[s.Name] = s
		}
	}
	for part := 1; part <= max(of, 1); part++ {
		if !seen[part] {
			missing = append(missing, part)
		}
	}
	return missing, shards, nil
}

// escapeGlob makes a path that stands for itself in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}

// check wants every file of the plan, but for those that join writes.
func (d folder) check(ctx context.Context, plan *planFile, shards map[string]partShard, read bool) error {
	for _, s := range plan.Shards {
		written, ok := shards[s.Name]
		if !ok || written.Bytes != s.Bytes {
			return fmt.Errorf("%w %s: no part has written %s", ErrOutput, d.dir, s.Name)
		}
		if err := d.checkSize(s.Name, s.Bytes); err != nil {
			return err
		}
		if !read {
			continue
		}
		why, err := d.checkShard(ctx, written)
		if err != nil {
			return err
		}
		if why != "" {
			return fmt.Errorf("%w %s: %s %s", ErrOutput, d.dir, s.Name, why)
		}
	}
	for _, s := range plan.Side {
		if err := d.checkSize(s.Name, s.Bytes); err != nil {
			return err
		}
	}
	return nil
}

func (d folder) checkSize(name string, want int64) error {
	info, err := os.Stat(d.path(name))
	if err != nil {
		return systemError(d.path(name), err)
	}
	if info.Size() != want {
		return fmt.Errorf("%w %s: %s has %d bytes instead of %d", ErrOutput, d.dir, name, info.Size(), want)
	}
	return nil
}

// removeMarks is the last step: all files are there, under their names.
func (d folder) removeMarks(planText []byte) (Result, error) {
	plan, err := decodePlan(planText)
	if err != nil {
		return Result{}, fmt.Errorf("%w %s: %w", ErrOutput, d.path(joinedName), err)
	}
	marks, err := filepath.Glob(filepath.Join(escapeGlob(d.dir), partMarks))
	if err != nil {
		return Result{}, systemError(d.dir, err)
	}
	d.dropLocks()
	for _, path := range slices.Concat(marks, []string{d.path(joinedName)}) {
		if err := d.fs.remove(path); err != nil && !isMissing(err) {
			return Result{}, systemError(path, err)
		}
	}
	if err := d.fs.syncFolder(d.dir); err != nil {
		return Result{}, systemError(d.dir, err)
	}
	r := Result{Whole: true, Files: len(plan.Shards) + len(plan.Texts) + len(plan.Side)}
	for _, s := range plan.Shards {
		r.Bytes += s.Bytes
	}
	for _, t := range plan.Texts {
		r.Bytes += int64(len(t.Text))
	}
	for _, s := range plan.Side {
		r.Bytes += s.Bytes
	}
	return r, nil
}

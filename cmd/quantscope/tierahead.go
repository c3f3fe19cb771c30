package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"quantscope/analysis/corpus"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/tier"
	"quantscope/quant/method"
	"quantscope/sessions"
)

// ahead refuses before a token is routed, which may take hours, what would be refused
// once maps are written, measured and asked.
func (f *tierFlags) ahead() error {
	for _, of := range []struct{ flag, variant string }{{"--hot", f.hot}, {"--cold", f.cold}} {
		if of.variant == tier.Source {
			if of.flag == "--cold" {
				return usage(errors.New("--cold source: cold experts are stored as a variant, not as the source has them"))
			}
			continue
		}
		switch v, err := method.Parse(of.variant); {
		case err != nil:
			return usage(fmt.Errorf("%s: %w", of.flag, err))
		case v.Calibrated():
			return usage(fmt.Errorf("%s: %s is calibrated, and tiers are made on the fly", of.flag, of.variant))
		}
	}
	if f.suite != "" {
		s, err := suite.Open(f.suite)
		if err != nil {
			return gatesError(err)
		}
		if err := sessions.CheckProbes(s, strings.Join(f.probes, ",")); err != nil {
			return gatesError(err)
		}
	}
	for _, name := range f.corpora {
		if corpus.Embedded(name) {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			return badInput(fmt.Errorf("--corpus: %w, and no embedded corpus (%s)", err, strings.Join(corpus.Known(), ", ")))
		}
	}
	return f.placeForMaps()
}

// placeForMaps refuses a folder that cannot have the maps.
func (f *tierFlags) placeForMaps() error {
	if f.out == "" {
		return nil
	}
	switch info, err := os.Stat(f.out); {
	case errors.Is(err, os.ErrNotExist):
		return nil // it is made
	case err != nil:
		return environment(err)
	case !info.IsDir():
		return environment(fmt.Errorf("%s: is no folder that maps can be written to", f.out))
	}
	for _, text := range f.budgets {
		b, err := tier.ParseBudget(text, &tier.Shape{}) // for its label: its bytes come of the model
		if err != nil {
			return usage(err)
		}
		if err := writable(f.mapFile(b.Label), f.force, f.session, f.record); err != nil {
			return err
		}
	}
	return nil
}

// mapFile is where a map goes, by its name in the session.
func (f *tierFlags) mapFile(name string) string {
	return filepath.Join(f.out, strings.ReplaceAll(name, "#", "-")+".json")
}

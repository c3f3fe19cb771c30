package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// oneSubject refuses more than one argument of the workbench. What stands first
// is then most likely a command that was mistyped.
func oneSubject(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	err := fmt.Errorf("one checkpoint or session at a time, or a command; %q is no command", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w: %s?", err, strings.Join(near, " or "))
	}
	return usage(err)
}

// flagError says of a value that a flag cannot hold what the flag wants, instead
// of the name of the function that parsed it.
func flagError(_ *cobra.Command, err error) error {
	want := map[string]string{"int": "a whole number", "uint64": "a whole number, 0 or more", "float64": "a number", "bool": "true or false"}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if w := want[invalid.GetFlag().Value.Type()]; w != "" {
			err = fmt.Errorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), w)
		}
	}
	return usage(err)
}

// emptyFlags refuses a flag that was given and holds nothing, as a variable that is
// not set leaves it: to go on would leave out what was asked for.
func emptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = usage(fmt.Errorf("--%s is given and empty", f.Name))
		}
	})
	return err
}

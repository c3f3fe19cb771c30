package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"quantscope/quant/demo"
)

func newSynth(std streams) *cobra.Command {
	s := demo.Synth{}
	var shard string
	cmd := &cobra.Command{
		Use:   "synth DIR",
		Short: "Write a checkpoint of Gaussian weights in the demo's layout",
		Long: `synth writes a sharded checkpoint with Gaussian weights in the layout of the
embedded demo, for load tests and demonstrations. --layers counts MoE layers; a
dense layer 0 comes in addition, except with one layer. The same flags give the
same bytes.`,
		Example: "  quantscope synth big --layers 43 --experts 288 --hidden 64 --intermediate 64 --seed 1",
		Args:    exactly(1, "synth takes one folder to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if shard != "" {
				var err error
				if s.ShardBytes, err = parseBytes(shard); err != nil {
					return usage(fmt.Errorf("--shard: %w", err))
				}
			}
			if s.Layers < 1 || s.Experts < 1 || s.Hidden < 1 || s.Intermediate < 1 {
				return usage(fmt.Errorf("--layers, --experts, --hidden and --intermediate must be at least 1"))
			}
			last := time.Now()
			err := s.Write(cmd.Context(), args[0], func(done, total int64) {
				if std.live && time.Since(last) > 100*time.Millisecond {
					last = time.Now()
					fmt.Fprintf(std.err, "\rwriting  %s of %s\x1b[K", formatBytes(done), formatBytes(total))
				}
			})
			if std.live {
				fmt.Fprint(std.err, "\r\x1b[K")
			}
			if errors.Is(err, fs.ErrExist) {
				return usage(fmt.Errorf("%s is there already and not empty", args[0]))
			}
			if err != nil {
				return err
			}
			t := newReport(std.out)
			t.line("%s: %d routed-expert matrices", args[0], s.Layers*s.Experts*3)
			return t.err
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&s.Layers, "layers", 4, "MoE layers")
	fl.IntVar(&s.Experts, "experts", 16, "routed experts a layer")
	fl.IntVar(&s.Hidden, "hidden", 64, "hidden size")
	fl.IntVar(&s.Intermediate, "intermediate", 64, "intermediate size of an expert")
	fl.Uint64Var(&s.Seed, "seed", 1, "seed of the weights")
	fl.StringVar(&shard, "shard", "", "largest shard, such as 64MiB; there are two or more (default: 512MiB)")
	return cmd
}

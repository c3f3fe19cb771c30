package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"quantscope/quant/demo"
)

// synthDocument is the --json output of synth.
type synthDocument struct {
	Dir            string   `json:"dir"`
	ExpertMatrices int      `json:"expert_matrices"`
	Seed           uint64   `json:"seed"`
	Plants         []string `json:"plants"`
	Tail           []string `json:"tail"` // the tensors of the planted tail
}

func newSynth(std streams) *cobra.Command {
	s := demo.Synth{}
	var shard, plants string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "synth DIR",
		Short: "Write a checkpoint of Gaussian weights in the demo's layout",
		Long: `synth writes a sharded checkpoint with Gaussian weights in the layout of the
embedded demo, for load tests and demonstrations. --layers counts MoE layers; a
dense layer 0 comes in addition, except with one layer. The same flags give the
same bytes.

--plant puts effects in, so that what finds them can be tested: a list of
KIND=WHICH:FACTOR, where the factor multiplies rel2 under nvfp4 round to nearest.
layer=5:1.06 is all matrices of layer 5, expert=17:1.03 a routed expert in all
layers, projection=down:1.02 a projection everywhere, tail=0.01:1.5 one in a
hundred of the routed experts' matrices, drawn by the seed and listed. Factors
multiply where plants meet.`,
		Example: `  quantscope synth big --layers 43 --experts 288 --hidden 64 --intermediate 64 --seed 1
  quantscope synth planted --layers 8 --experts 32 --plant layer=5:1.06,expert=17:1.03,tail=0.01:1.5`,
		Args: exactly(1, "synth takes one folder to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if shard != "" {
				if s.ShardBytes, err = parseBytes(shard); err != nil {
					return usage(fmt.Errorf("--shard: %w", err))
				}
			}
			if s.Layers < 1 || s.Experts < 1 || s.Hidden < 1 || s.Intermediate < 1 {
				return usage(fmt.Errorf("--layers, --experts, --hidden and --intermediate must be at least 1"))
			}
			doc := synthDocument{Dir: args[0], ExpertMatrices: s.Layers * s.Experts * 3, Seed: s.Seed, Plants: []string{}, Tail: []string{}}
			if cmd.Flags().Changed("plant") {
				if s.Plants, err = demo.ParsePlants(plants); err != nil {
					return usage(fmt.Errorf("--plant: %w", err))
				}
				tail, err := s.Tail()
				if err != nil {
					return usage(fmt.Errorf("--plant: %w", err))
				}
				doc.Tail = append(doc.Tail, tail...)
				for _, p := range s.Plants {
					doc.Plants = append(doc.Plants, p.String())
				}
			}
			if err := writeSynth(cmd, std, s, args[0]); err != nil {
				return err
			}
			if asJSON {
				return printJSON(std.out, doc)
			}
			t := newReport(std.out)
			t.line("%s: %d routed-expert matrices", doc.Dir, doc.ExpertMatrices)
			for _, p := range doc.Plants {
				t.line("planted %s", p)
			}
			for _, name := range doc.Tail {
				t.line("in the tail: %s", name)
			}
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
	fl.StringVar(&plants, "plant", "", "effects to plant, such as layer=5:1.06,tail=0.01:1.5")
	fl.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// writeSynth writes the checkpoint, with its progress on a terminal.
func writeSynth(cmd *cobra.Command, std streams, s demo.Synth, dir string) error {
	last := time.Now()
	err := s.Write(cmd.Context(), dir, func(done, total int64) {
		if std.live && time.Since(last) > 100*time.Millisecond {
			last = time.Now()
			fmt.Fprintf(std.err, "\rwriting  %s of %s\x1b[K", formatBytes(done), formatBytes(total))
		}
	})
	if std.live {
		fmt.Fprint(std.err, "\r\x1b[K")
	}
	if errors.Is(err, fs.ErrExist) {
		return usage(fmt.Errorf("%s is there already and not empty", dir))
	}
	return err
}

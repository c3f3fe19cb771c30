package kernels

import (
	"fmt"
	"strings"
)

// Convention is whose arithmetic a quantization follows. Each format says what
// it knows by Conventions.
type Convention uint8

// Conventions. What they do to a format is said at its quantizer.
const (
	ModelOpt       Convention = iota // nvidia-modelopt; NVFP4: weight_scale_2 = amax/2688, block scale = amax_block/(6·weight_scale_2)
	ModelOptStatic                   // NVFP4 only: the same, block scale = (amax_block/6)·448/(amax/6)
	CT32                             // compressed-tensors from f32; NVFP4: weight_global_scale = 2688·(1/amax), a divisor
	CT                               // compressed-tensors from bf16: scales and quotients are rounded to bf16; NVFP4: 1/amax, its product and amax_block/6
	Own                              // int4 only: a bf16 scale and a bf16 minimum
	DeepSeek                         // FP8 in tiles only: weight_scale_inv
	conventions
)

var conventionNames = [conventions]string{"modelopt", "modelopt-static", "ct32", "ct", "own", "deepseek"}

// String is the convention's name.
func (c Convention) String() string {
	if c < conventions {
		return conventionNames[c]
	}
	return fmt.Sprintf("convention(%d)", uint8(c))
}

// ConventionByName finds a convention. An unknown name is an error that lists
// the known ones.
func ConventionByName(name string) (Convention, error) {
	for c, n := range conventionNames {
		if n == name {
			return Convention(c), nil
		}
	}
	return 0, fmt.Errorf("convention %q: %w (known: %s)", name, ErrUnsupported, strings.Join(conventionNames[:], ", "))
}

package layout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mlxSection is the key of config.json that MLX writes; quantization_config has
// the same in newer files.
const mlxSection = "quantization"

// mlxJSON is what of an MLX config is about all modules, or about one.
type mlxJSON struct {
	Bits  *int    `json:"bits"`
	Group *int    `json:"group_size"`
	Mode  *string `json:"mode"`
}

// isMLX tells MLX's description from others: it has bits or groups and names no
// method. quantization_config must have the mode too, since others leave out the
// method as well.
func isMLX(raw json.RawMessage, key string) bool {
	var x struct {
		mlxJSON
		Method json.RawMessage `json:"quant_method"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &x) != nil || len(x.Method) > 0 {
		return false
	}
	return (x.Bits != nil || x.Group != nil) && (key == mlxSection || x.Mode != nil)
}

// args fills what is not said with what the mode begins with.
func (x *mlxJSON) args() (mlxArgs, error) {
	mode := mlxAffine
	if x.Mode != nil {
		mode = *x.Mode
	}
	a, ok := mlxModes[mode]
	if !ok {
		return a, fmt.Errorf("mode %.40q is not known (known: %s)", mode, strings.Join(slices.Sorted(maps.Keys(mlxModes)), ", "))
	}
	if x.Bits != nil {
		a.bits = *x.Bits
	}
	if x.Group != nil {
		a.group = *x.Group
	}
	if a.bits < 1 || a.bits > 64 {
		return a, fmt.Errorf("bits is %d", a.bits)
	}
	return a, nil
}

// parseMLX reads MLX's description. Keys that hold an object or a truth value are
// modules; other keys that are not known say nothing of the weights.
func parseMLX(file string, raw json.RawMessage) (*config, error) {
	var all mlxJSON
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &keys); err != nil {
		return nil, err
	}
	c := &config{file: file, method: MLX, mlxLayers: map[string]mlxArgs{}}
	var err error
	if c.mlx, err = all.args(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		var one mlxJSON
		var quantized bool
		switch text := keys[name]; {
		case text[0] == '{':
			if err := json.Unmarshal(text, &one); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if c.mlxLayers[name], err = one.args(); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			c.addTargets(mlxSection, []string{name}, nil)
		case json.Unmarshal(text, &quantized) == nil && string(text) != "null":
			if quantized {
				c.addTargets(mlxSection, []string{name}, nil)
			} else {
				c.entries = append(c.entries, newEntry(file, mlxSection, name, exactOrRegex))
			}
		}
	}
	return c, nil
}

// firstMLX finds MLX's description: under its own key, of the whole config or of
// the text model, else in quantization_config; nil where there is none.
func firstMLX(own, text, config json.RawMessage) json.RawMessage {
	for _, raw := range []json.RawMessage{own, text} {
		if isMLX(raw, mlxSection) {
			return raw
		}
	}
	if isMLX(config, "quantization_config") {
		return config
	}
	return nil
}

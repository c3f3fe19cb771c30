package export

import "encoding/json"

// quantization is what config.json says of the quantization, and the files
// that a layout has beside it. ignore are the modules that are not quantized.
func (b *planner) quantization(ignore []string) (json.RawMessage, []Text, error) {
	return b.modelOptConfig(ignore)
}

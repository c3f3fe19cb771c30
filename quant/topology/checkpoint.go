package topology

import (
	"fmt"

	"quantscope/quant/checkpoint"
)

// modelOptConfig is where ModelOpt's older exports say how they quantized.
const modelOptConfig = "hf_quant_config.json"

// FromCheckpoint resolves an opened checkpoint. A config that cannot be used is
// a finding, not an error.
func FromCheckpoint(c *checkpoint.Checkpoint) (*Model, error) {
	tensors := make([]Named, len(c.Tensors))
	for i := range c.Tensors {
		t := &c.Tensors[i]
		tensors[i] = Named{Name: t.Name, DType: t.DType.String(), Shape: t.Shape}
	}
	cfg, err := configOf(c)
	if err != nil {
		return nil, err
	}
	m, err := Resolve(cfg, tensors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Path, err)
	}
	return m, nil
}

func configOf(c *checkpoint.Checkpoint) (Config, error) {
	var cfg Config
	if text := c.ConfigJSON(); len(text) > 0 {
		var err error
		if cfg, err = ParseConfig(text); err != nil {
			return Config{Notes: []string{err.Error()}}, nil
		}
	}
	side, ok := c.SideFile(modelOptConfig)
	if !ok || cfg.QuantMethod != "" {
		return cfg, nil
	}
	text, err := side.Read()
	if err != nil {
		return cfg, err
	}
	cfg.addModelOpt(text)
	return cfg, nil
}

// addModelOpt reads the scheme from ModelOpt's own file.
func (c *Config) addModelOpt(text []byte) {
	root, err := parseObject(text)
	if err != nil {
		c.Notes = append(c.Notes, fmt.Sprintf("%s: %v", modelOptConfig, err))
		return
	}
	q, ok := root["quantization"].(object)
	if !ok {
		c.Notes = append(c.Notes, modelOptConfig+": no quantization section")
		return
	}
	r := &reader{cfg: c, obj: q}
	c.QuantMethod, c.QuantFormat, c.QuantGroup = "modelopt", stringOf(q["quant_algo"]), r.group("group_size")
}

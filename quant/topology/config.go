package topology

// Config is what config.json says of the text model. Zero values mean that the
// file does not say; Present is false where there is no usable file at all.
type Config struct {
	Present       bool
	ModelType     string // outermost model_type
	TextModelType string // model_type of text_config where there is one, else ModelType
	Architectures []string

	Hidden, Intermediate, MoEIntermediate int
	Layers, Heads, KVHeads, HeadDim       int
	Vocab                                 int
	Experts, SharedExperts, TopK          int
	MTPLayers                             int
	Tied                                  bool
	QuantMethod                           string // quantization_config.quant_method, "" where there is none
}

// ParseConfig reads a config.json.
func ParseConfig(data []byte) (Config, error) {
	return Config{}, nil
}

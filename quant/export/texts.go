package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"quantscope/quant/checkpoint"
)

const (
	configName   = "config.json"
	indexName    = "model.safetensors.index.json"
	modelOptName = "hf_quant_config.json"
	singleName   = "model.safetensors"
)

// texts makes the files that the export does not share with its source, and
// lists those that it does.
func (b *planner) texts() error {
	ignore := b.ignored()
	for _, names := range [][]string{ignore, b.Modules} {
		if i := slices.IndexFunc(names, isPattern); i >= 0 {
			return fmt.Errorf("tensor %q: a config would read its name as a pattern: %w", names[i]+weightSuffix, ErrMatrix)
		}
	}
	quantization, extra, err := b.quantization(ignore)
	if err != nil {
		return err
	}
	b.Texts = extra
	source := b.ck.Config
	if source == nil {
		source = []byte("{}\n")
	}
	config, err := checkpoint.SetMember(source, "quantization_config", quantization)
	if err != nil {
		return fmt.Errorf("%w %s: %s: %w", ErrSource, b.ck.Path, configName, err)
	}
	return b.finishTexts(config)
}

// finishTexts adds the index and the config to the texts, and lists the files that
// the export shares with its source.
func (b *planner) finishTexts(config []byte) error {
	if len(b.Shards) > 1 || b.Shards[0].Name != singleName {
		index, err := b.index()
		if err != nil {
			return err
		}
		b.Texts = append(b.Texts, Text{indexName, index})
	} else {
		for i := range b.Shards[0].Tensors {
			b.WeightBytes += b.Shards[0].Tensors[i].Size
		}
	}
	b.Texts = append(b.Texts, Text{configName, config})
	side, err := b.ck.AllSide()
	if err != nil {
		return err
	}
	for _, f := range side {
		if !slices.ContainsFunc(b.Texts, func(t Text) bool { return t.Name == f.Name }) {
			b.Side = append(b.Side, f)
		}
	}
	return nil
}

// index says which file has which tensor.
func (b *planner) index() ([]byte, error) {
	weights := make(map[string]string, len(b.byName))
	for i := range b.Shards {
		for k := range b.Shards[i].Tensors {
			t := &b.Shards[i].Tensors[k]
			weights[t.Name] = b.Shards[i].Name
			b.WeightBytes += t.Size // cannot overflow: each file's sum was checked, and sum looks at all
		}
	}
	return marshal(struct {
		Metadata  map[string]int64  `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}{map[string]int64{"total_size": b.WeightBytes}, weights})
}

// marshal is JSON over several lines, with nothing escaped that need not be,
// and a newline at the end.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return bytes.Clone(buf.Bytes()), err // without the room that the buffer grew into
}

package lint

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// source looks for what the source has and this has not: modules, MTP layers,
// files beside the weights, values of the config. It reads headers and configs.
func (r *run) source() error {
	if r.From == nil {
		return nil
	}
	r.modules()
	r.configDiff()
	return r.sideFiles()
}

// modules holds names of modules against the source's. Experts that are split or
// fused, and names below another prefix, are the same module.
func (r *run) modules() {
	have := make(map[string]bool, len(r.Checkpoint.Tensors))
	for i := range r.Checkpoint.Tensors {
		have[canonicalModule(r.Checkpoint.Tensors[i].Name)] = true
	}
	missing := map[topology.Kind][]string{}
	var mtp []string
	params := map[topology.Kind]int64{}
	for i := range r.From.Tensors {
		t, role := &r.From.Tensors[i], &r.FromModel.Roles[i]
		if have[canonicalModule(t.Name)] || role.Kind == topology.Head && r.Model.Tied {
			continue
		}
		if role.MTP {
			mtp = append(mtp, t.Name)
			continue
		}
		missing[role.Kind] = append(missing[role.Kind], t.Name)
		params[role.Kind] += t.Elements()
	}
	if len(mtp) > 0 && r.Model.MTPLayers == 0 && r.listed[topology.MTPMissing] == 0 {
		r.add(idMTPDropped, Finding{
			Tensor: mtp[0], Message: fmt.Sprintf("%s of MTP layers in the source, none here, the first %s", counted(len(mtp), "tensor"), mtp[0]),
			Evidence: []Evidence{{"tensors", fmt.Sprint(len(mtp))}, {"first", mtp[0]}},
		})
	} else if len(mtp) > 0 && r.Model.MTPLayers > 0 {
		missing[topology.MTPExtra] = append(missing[topology.MTPExtra], mtp...)
	}
	for _, kind := range slices.Sorted(maps.Keys(missing)) {
		list := missing[kind]
		r.add("tensors-missing", Finding{
			Tensor: list[0], Message: fmt.Sprintf("%s of %s that the source has are missing, the first %s", counted(len(list), "tensor"), kind, list[0]),
			Evidence: []Evidence{{"part", kind.String()}, {"tensors", fmt.Sprint(len(list))}, {"elements", fmt.Sprint(params[kind])}},
		})
	}
}

// canonicalModule is a module's name without what differs between ways of storing
// the same model: the wrapper's prefix, experts' numbers, and gate and up apart.
func canonicalModule(tensor string) string {
	name, param := layout.Split(tensor)
	if param == "bias" {
		name += ".bias"
	}
	if i := strings.Index(name, "layers."); i >= 0 && !strings.Contains(name[:i], "mtp") && !strings.Contains(name[:i], "vis") && !strings.Contains(name[:i], "audio") {
		name = name[i:]
	}
	if i := strings.Index(name, ".experts."); i >= 0 {
		name = name[:i] + ".experts" // any part of them
	}
	if i := strings.Index(name, ".moe."); i >= 0 {
		switch name[i+len(".moe."):] {
		case "gate_proj", "up_proj", "down_proj": // Step's stacks, of all experts
			name = name[:i] + ".moe.experts"
		}
	}
	return name
}

// quietKeys are keys of config.json that change no output, or that every tool
// writes as it likes.
var quietKeys = map[string]bool{
	"quantization_config": true, "quantization": true, "torch_dtype": true, "dtype": true, "transformers_version": true, "_name_or_path": true, "use_cache": true,
	"architectures": true, "auto_map": true, "text_config": true, "vision_config": true, "audio_config": true, "_attn_implementation_autoset": true, "compression_config": true,
	"output_attentions": true, "output_hidden_states": true, "return_dict": true, "attn_implementation": true, "_attn_implementation": true,
}

// configDiff holds config.json against the source's, the text model's section too.
func (r *run) configDiff() {
	a, b := rootOf(r.Checkpoint.ConfigJSON()), rootOf(r.From.ConfigJSON())
	if a == nil || b == nil {
		return
	}
	var diff []Evidence
	compare := func(prefix string, a, b map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(b)) {
			x, ok := a[key]
			switch {
			case quietKeys[key] || reflect.DeepEqual(x, b[key]):
			case !ok:
				if !isDefault(b[key]) {
					diff = append(diff, Evidence{prefix + key, "missing, in the source " + brief(b[key])})
				}
			default:
				diff = append(diff, Evidence{prefix + key, fmt.Sprintf("%s, in the source %s", brief(x), brief(b[key]))})
			}
		}
	}
	compare("", a, b)
	for _, section := range []string{"text_config", "vision_config", "audio_config"} {
		x, okX := a[section].(map[string]any)
		y, okY := b[section].(map[string]any)
		if okX && okY {
			compare(section+".", x, y)
		} else if okY && section != "text_config" {
			diff = append(diff, Evidence{section, "missing, in the source it is there"})
		}
	}
	if len(diff) > 0 {
		r.add("config-differs", Finding{File: "config.json", Message: "differs from the source's in " + some(names(diff), 6), Evidence: diff})
	}
}

// isDefault says whether a value is one that tools leave out.
func isDefault(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// sideFiles looks for the files beside the source's weights. Tokenizer and chat
// template are another rule's, quantization configs are not to be copied.
func (r *run) sideFiles() error {
	for _, f := range r.From.Side {
		if _, ok := r.Checkpoint.SideFile(f.Name); ok {
			continue
		}
		id := "side-missing"
		switch {
		case strings.Contains(f.Name, "quant") || f.Name == "recipe.yaml" || strings.HasPrefix(f.Name, "tokenizer") || strings.HasPrefix(f.Name, "chat_template"):
			continue
		case f.Name == preprocessorFile && r.listed["preprocessor-missing"]+r.listed["preprocessor-reconstructible"] > 0:
			continue
		case strings.HasSuffix(f.Name, preprocessorFile) || f.Name == processorFile:
			id = "processor-missing"
		case f.Name == "generation_config.json":
			id = "generation-config-missing"
		}
		r.add(id, Finding{File: f.Name, Message: "is missing, and the source has it", Evidence: []Evidence{{"source", fmt.Sprintf("%d bytes", f.Size)}}})
	}
	return nil
}

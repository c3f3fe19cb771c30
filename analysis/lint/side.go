package lint

import (
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

const (
	preprocessorFile = "preprocessor_config.json"
	processorFile    = "processor_config.json"
)

// side holds towers, their configs and processors against one another. It reads
// config.json and processor_config.json. Of one file that was opened by itself the
// files beside it may be anything's, and it says nothing.
func (r *run) side() error {
	root := rootOf(r.Checkpoint.ConfigJSON())
	_, vision := root["vision_config"].(map[string]any)
	var tower *checkpoint.Tensor
	for i := range r.Model.Roles {
		if r.Model.Roles[i].Kind == topology.Vision {
			tower = &r.Checkpoint.Tensors[i]
			break
		}
	}
	if root == nil {
		return nil
	}
	_, audio := root["audio_config"].(map[string]any)
	_, thinker := root["thinker_config"].(map[string]any)
	switch {
	case tower != nil && !vision && !audio && !thinker && root["visual"] == nil && root["vision_tower"] == nil && root["mm_vision_tower"] == nil:
		r.tensor("vision-config-missing", tower, Finding{Message: "is of a tower, and config.json has no vision_config"})
	case tower == nil && vision:
		r.add("vision-tower-missing", Finding{File: "config.json", Message: "has a vision_config, and no tensor of a tower is stored"})
	}
	if !vision {
		return nil
	}
	if _, there := r.Checkpoint.SideFile(preprocessorFile); there {
		return nil
	}
	p, ok := r.Checkpoint.SideFile(processorFile)
	if ok {
		text, err := p.Read()
		if err != nil {
			return err
		}
		if _, ok := rootOf(text)["image_processor"].(map[string]any); ok {
			r.add("preprocessor-reconstructible", Finding{
				File: preprocessorFile, Message: "is missing for a model with vision_config; image_processor of " + processorFile + " has what it would say",
				Evidence: []Evidence{{processorFile, "has image_processor"}},
			})
			return nil
		}
	}
	r.add("preprocessor-missing", Finding{File: preprocessorFile, Message: "is missing for a model with vision_config", Evidence: []Evidence{{processorFile, there(ok)}}})
	return nil
}

func there(ok bool) string {
	if ok {
		return "there, without image_processor"
	}
	return "missing too"
}

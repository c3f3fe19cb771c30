package lint

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// files passes on what the reader noticed; of MTP tensors that the index does not
// know, and of files that hold such, it says so. It reads headers, and the JSON files
// that no other rule reads.
func (r *run) files() error {
	var unlisted []topology.Named
	for _, f := range r.Checkpoint.Findings {
		if f.ID == checkpoint.NotIndexed {
			unlisted = append(unlisted, topology.Named{Name: f.Tensor})
		}
	}
	mtp := r.mtpOf(unlisted)
	for _, f := range r.Checkpoint.Findings {
		id, message := f.ID, f.Message
		switch {
		case id == checkpoint.NotIndexed && mtp[f.Tensor]:
			id = idMTPNotIndexed
		case id == checkpoint.StrayFile:
			if names := r.strayMTP(f.File); len(names) > 0 {
				id, message = idMTPNotIndexed, "holds "+counted(len(names), "tensor")+" of MTP layers, as "+names[0]+", and is "+message
			}
		case id == "":
			id = checkpoint.Unreadable
		}
		r.add(id, Finding{File: f.File, Tensor: f.Tensor, Message: message})
	}
	r.objects()
	return nil
}

// objectFiles are the files that servers read as JSON objects and that no other rule
// looks into.
var objectFiles = []string{
	"added_tokens.json", "chat_template.json", "generation_config.json", preprocessorFile, processorFile,
	"special_tokens_map.json", "video_preprocessor_config.json", "vocab.json",
}

// objects reads small files beside the weights, which are to be JSON objects.
func (r *run) objects() {
	for _, f := range r.Checkpoint.Side {
		if !slices.Contains(objectFiles, f.Name) {
			continue
		}
		text, err := f.Read()
		var object map[string]json.RawMessage
		if err == nil {
			if err = json.Unmarshal(text, &object); err == nil && object == nil {
				err = errors.New("null")
			}
		}
		if err != nil {
			r.add(checkpoint.Unreadable, Finding{File: f.Name, Message: "is no JSON object: " + err.Error()})
		}
	}
}

// mtpOf says which names are of MTP layers.
func (r *run) mtpOf(names []topology.Named) map[string]bool {
	out := map[string]bool{}
	if len(names) == 0 {
		return out
	}
	m, err := topology.Resolve(r.Model.Config, names)
	if err != nil { // a name stands twice: in two shards
		return out
	}
	for i := range m.Roles {
		out[names[i].Name] = m.Roles[i].MTP
	}
	return out
}

// strayMTP lists tensors of MTP layers in a file of the folder that is no part of
// the checkpoint, where all of the file is such.
func (r *run) strayMTP(file string) []string {
	dir, ok := r.Checkpoint.Folder()
	if !ok {
		return nil
	}
	c, err := checkpoint.OpenFile(filepath.Join(dir, file))
	if err != nil { // what is wrong with a file that is not used is no matter
		return nil
	}
	defer c.Close()
	named := make([]topology.Named, len(c.Tensors))
	for i := range c.Tensors {
		named[i].Name = c.Tensors[i].Name
	}
	var out []string
	for name, is := range r.mtpOf(named) {
		if !is {
			return nil
		}
		out = append(out, name)
	}
	return sorted(out)
}

// structure passes on what names and shapes showed, and looks at how they fit the
// config's class; it reads nothing. Without a config nothing is declared, so that
// nothing can be missing: warnings then.
func (r *run) structure() error {
	for _, list := range [][]topology.Finding{r.Model.Findings, r.Model.Unresolved} {
		for _, f := range list {
			x := Finding{File: r.fileOf(f.Tensor), Tensor: f.Tensor, Message: f.Message}
			if x.File == "" && f.Tensor == "" {
				x.File = "config.json"
			}
			if !r.Model.Config.Present && KindOf(f.ID).Severity == Error {
				x.Severity = Warning
			}
			r.add(f.ID, x)
		}
	}
	r.flatKeys()
	r.headDims()
	r.dtypes()
	return nil
}

// wrapsFlat are the classes …ForConditionalGeneration whose checkpoints have the
// text model's names as they are: releases before transformers renamed them, and Step's,
// which name vision_model beside it.
var wrapsFlat = map[string]bool{"qwen2_vl": true, "qwen2_5_vl": true, "step3p7": true}

// flatKeys looks for a text model under a class that wraps one. The class shows in
// the config: its name, and a text model nested in it.
func (r *run) flatKeys() {
	c := &r.Model.Config
	if len(c.Architectures) == 0 || wrapsFlat[c.ModelType] {
		return
	}
	class := c.Architectures[0]
	root := rootOf(r.Checkpoint.ConfigJSON())
	_, nested := root["text_config"].(map[string]any)
	if !nested || !strings.HasSuffix(class, "ForConditionalGeneration") {
		return
	}
	var first *checkpoint.Tensor
	flat := 0
	for i := range r.Checkpoint.Tensors {
		t := &r.Checkpoint.Tensors[i]
		if strings.Contains(t.Name, "language_model.") || strings.Contains(t.Name, "text_model.") {
			return
		}
		if strings.HasPrefix(t.Name, "model.layers.") {
			if flat++; first == nil {
				first = t
			}
		}
	}
	if first == nil {
		return
	}
	if r.From != nil { // the source decides
		if _, same := r.From.Lookup(first.Name); same {
			return
		}
	}
	r.tensor("keys-flat", first, Finding{
		Message:  counted(flat, "tensor") + " under model.layers, none under language_model: " + class + " expects its text model there",
		Evidence: []Evidence{{"architectures", class}, {"first name", first.Name}},
	})
}

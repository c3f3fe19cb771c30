package lint

import (
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// Rules, by which findings are grouped.
const (
	ruleFiles        = "layout"
	ruleStructure    = "structure"
	ruleScales       = "scales"
	ruleQuantization = "quantization"
	ruleGroups       = "groups"
	ruleGlobals      = "globals"
	ruleKept         = "kept"
	ruleSide         = "side"
	ruleTokenizer    = "tokenizer"
	ruleSource       = "source"
	ruleWeights      = "weights"
	ruleEffective    = "effective"
	ruleGGUF         = "gguf"
	ruleLog          = "log"
)

// fileKinds are about files and the index.
var fileKinds = []Kind{
	kind(checkpoint.NotIndexed, ruleFiles, Error, "a tensor is in a shard and not in the index",
		"Loaders go by the index: what it does not list does not exist for them.",
		"It leaves the tensor out without a word, or reports it as missing.",
		"write the index anew from the shards", "names in the index against names in the shards' headers"),
	mended(kind(idMTPNotIndexed, ruleFiles, Error, "MTP tensors are stored and not registered in the index",
		"Quantizers that copy MTP tensors beside the model forget the index; loaders go by the index.",
		"It starts without the MTP layer, or fails when speculative decoding is asked for; acceptance is zero.",
		"register the tensors in model.safetensors.index.json", "names that belong to MTP layers in shards, or in files that the index does not name"), MendGraft),
	kind(checkpoint.IndexTotal, ruleFiles, Warning, "the index states another size than the tensors have",
		"metadata.total_size was not updated when tensors were changed, so that other entries may be stale too.",
		"Most ignore it; some plan memory and downloads by it.", "write the index anew from the shards", "metadata.total_size against the sum of the tensors' bytes"),
	kind(checkpoint.StrayFile, ruleFiles, Error, "a file of tensors lies beside the checkpoint and is no part of it",
		"Some loaders take every .safetensors file of a folder, others only those that the index names.",
		"Two servers load two different models from this folder.", "take the file away, or list its tensors in the index", "files of the folder against the index"),
	kind(checkpoint.NoIndex, ruleFiles, Warning, "several files and no index",
		"Nothing says whether all shards are there.", "It takes all files, or refuses the folder.", "write model.safetensors.index.json", "files of the folder"),
	kind(checkpoint.Unfinished, ruleFiles, Error, "the folder is marked as an export that is not finished",
		"Shards may be missing or half written.", "It fails, or serves what is there.", "finish the export, or take the folder away", "files named incomplete-export*.json"),
	kind(checkpoint.Unreadable, ruleFiles, Warning, "a file beside the weights cannot be read",
		"A link without a target, a folder where a file should be, or no JSON where JSON is read.", "It fails when it needs the file, or goes on without what the file says.", "take the file from the source", "files beside the weights"),
	kind(idWeightsMissing, ruleFiles, Error, "the folder has a tokenizer or a config and no weights",
		"Only what stands beside the weights was checked.", "It has nothing to load.", "put the weights there", "files of the folder"),
}

// structureKinds are about names and shapes against the config. Without a config
// nothing is declared; they are warnings then.
var structureKinds = []Kind{
	kind(topology.ConfigMissing, ruleStructure, Warning, "there is no config.json",
		"Sizes are derived from names and shapes.", "It cannot load the checkpoint.", "copy config.json from the source", "files of the folder"),
	kind(topology.ConfigValue, ruleStructure, Warning, "a value of the config cannot be right, or two disagree",
		"The value is taken for absent here; other programs may take the other one.", "It depends on the loader.", "compare config.json with the source checkpoint's", "values in config.json"),
	kind(topology.RopeOriginalMissing, ruleStructure, Warning, "the rope is stretched and original_max_position_embeddings is missing",
		"YaRN and its like interpolate between the trained and the stretched length; without the trained one programs fall back to max_position_embeddings.",
		"Positions are scaled from the wrong length: quality falls off, above all on long prompts.", "add original_max_position_embeddings to rope_scaling", "rope_scaling or rope_parameters in config.json"),
	kind(topology.LayersMissing, ruleStructure, Error, "decoder layers that the config declares are not stored",
		"A shard is missing, or the names are others.", "It fails to load, or serves layers of random numbers.", "add the missing shards, or correct num_hidden_layers", "layer numbers in tensor names against num_hidden_layers"),
	kind(topology.LayersBeyond, ruleStructure, Error, "layers lie behind those that the config declares",
		"Nothing marks them as MTP.", "It drops them, or fails on unexpected names.", "correct num_hidden_layers, or declare MTP layers", "layer numbers in tensor names"),
	mended(kind(topology.MTPMissing, ruleStructure, Error, "MTP layers are declared and none is stored",
		"Tools that load the model class without its MTP part save a checkpoint without it and keep the config.",
		"Speculative decoding fails to start, or drafts with random weights: acceptance near zero.", "graft the MTP tensors from the source, or declare none", "num_nextn_predict_layers and its like against names"), MendGraft),
	mended(kind(topology.MTPCount, ruleStructure, Error, "another number of MTP layers is stored than declared",
		"A part of the MTP layers was lost.", "It fails when speculative decoding is asked for.", "graft the MTP tensors from the source", "num_nextn_predict_layers and its like against names"), MendGraft),
	kind(topology.MTPUndeclared, ruleStructure, Warning, "MTP layers are stored and the config declares none",
		"They take room and are not used.", "It ignores them, or fails on unexpected names.", "declare them in config.json", "names of MTP layers against config.json"),
	kind(topology.ExpertCount, ruleStructure, Error, "a layer has another number of experts than the config says",
		"Experts were lost or added.", "It fails to load, or routes to experts that are not there.", "compare with the source checkpoint", "expert numbers in names and shapes"),
	kind(topology.ExpertsMissing, ruleStructure, Error, "a layer has no routed experts and the config says that it has",
		"The experts were not saved.", "It fails to load.", "compare with the source checkpoint", "names by layer against the config's rule of which layers are mixtures"),
	kind(topology.ExpertsExtra, ruleStructure, Error, "a layer has routed experts and the config says that it is dense",
		"Config and weights are of two models.", "It fails on unexpected names.", "compare with the source checkpoint", "names by layer against the config's rule of which layers are mixtures"),
	kind(topology.ExpertIncomplete, ruleStructure, Error, "an expert lacks one of its matrices",
		"A matrix was lost.", "It serves that expert with uninitialised memory, or fails.", "compare with the source checkpoint", "gate, up and down of each expert"),
	kind(topology.Geometry, ruleStructure, Error, "attention matrices do not fit heads and head_dim",
		"Config and weights are of two models, or head_dim is missing.", "It fails on shapes.", "state head_dim in config.json", "shapes of q, k, v and o against heads × head_dim"),
	kind(topology.HeadMissing, ruleStructure, Error, "the head is missing and not tied",
		"tie_word_embeddings is false, so lm_head.weight is a matrix of its own.", "It fails, or answers with an uninitialised head.", "store lm_head.weight, or set tie_word_embeddings", "tie_word_embeddings against names"),
	kind(topology.HeadStoredTwice, ruleStructure, Warning, "tied weights are stored twice",
		"tie_word_embeddings is true and a head is stored too; should the two differ, programs differ.", "It uses the embedding and drops the head, or the other way round; memory and download are larger.", "leave lm_head.weight out, or set tie_word_embeddings false", "tie_word_embeddings against names; --weights compares the two"),
	kind(topology.HeadUnknown, ruleStructure, Warning, "no head is stored, and nothing says that it is tied",
		"The model type is not known to tie by default.", "It fails, or ties.", "state tie_word_embeddings in config.json", "tie_word_embeddings and names"),
	kind(topology.EmbeddingMissing, ruleStructure, Error, "no token embedding is stored",
		"A shard is missing, or the name is not known.", "It fails to load.", "add the missing shard", "names"),
	kind(topology.NotCounted, ruleStructure, Warning, "packed tensors that nothing says the size of",
		"Neither headers nor config say how many codes a word holds.", "It depends on the loader.", "state bits and group_size in the quantization config", "dtypes and shapes"),
	kind(topology.Undecided, ruleStructure, Warning, "the orientation of a fused tensor is not known",
		"[experts, out, in] and [experts, in, out] both fit its shape.", "It depends on the model's code.", "add the sizes that decide its layout to config.json", "shapes of fused experts"),
	kind("head-dim-mixed", ruleStructure, Note, "layers have different head dimensions",
		"Attention of some layers is wider than of others, so that one head_dim does not say it.", "Loaders that read one head_dim fail, and KV-cache sizes computed from it are wrong.", "nothing, where the architecture is meant so; check that per-layer keys are in the config", "rows of q and k by layer"),
	kind("keys-flat", ruleStructure, Error, "names are those of the text model and the config's class wraps it",
		"A text model was saved alone (model.layers.…), and the config names a …ForConditionalGeneration class, which expects names below model.language_model.",
		"It fails on missing names, or serves a model whose every weight is random.", "name the tensors as the source does, or give the text model's class and config", "architectures and text_config against names"),
	kind("dtype-differs", ruleStructure, Warning, "weights are stored in another dtype than the config says",
		"Loaders cast to the config's dtype: bf16 cast to f16 overflows, f32 takes twice the room.", "It casts while loading.", "state the stored dtype in config.json", "torch_dtype or dtype against the matrices that are not quantized"),
}

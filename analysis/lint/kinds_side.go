package lint

// sideKinds are about files that a server reads beside the weights.
var sideKinds = []Kind{
	mended(kind("preprocessor-missing", ruleSide, Error, "preprocessor_config.json is missing for a model with a vision_config",
		"Saving the model does not save the processor.", "It fails on the first image, or to start.", "copy preprocessor_config.json from the source", "vision_config against the files of the folder"), MendProcessors),
	mended(kind("preprocessor-reconstructible", ruleSide, Warning, "preprocessor_config.json is missing, and processor_config.json has its content",
		"Newer versions of transformers write the image processor into processor_config.json alone.", "Servers that ask for the older file fail.", "write image_processor of processor_config.json as preprocessor_config.json", "vision_config against the files of the folder"), MendProcessors),
	kind("vision-config-missing", ruleSide, Error, "a vision tower is stored and the config has no vision_config",
		"The config was saved from the text model alone.", "It loads a text model and fails on the tower's names, or drops it.", "copy vision_config from the source", "tensors of towers against config.json"),
	kind("vision-tower-missing", ruleSide, Warning, "the config has a vision_config and no tower is stored",
		"The weights were saved from the text model alone.", "It fails on missing names, or serves a random tower.", "take the tower from the source, or give the text model's config", "config.json against tensors of towers"),
	mended(kind("processor-missing", ruleSide, Error, "a processor's config that the source has is missing",
		"Saving the model does not save the processor.", "It fails on the first image, sound or video.", "copy the file from the source", "the folder against --from"), MendProcessors),
	mended(kind("chat-template-missing", ruleSide, Error, "the source has a chat template and this has none",
		"The template is in a file of its own, which saving the tokenizer may leave out.", "It refuses chat requests, or falls back to a generic template.", "copy the chat template from the source", "chat_template.jinja, chat_template.json and tokenizer_config.json against --from"), MendTemplate),
	kind("generation-config-missing", ruleSide, Warning, "generation_config.json, which the source has, is missing",
		"It holds end tokens and sampling defaults.", "It may not stop at the model's own end of turn.", "copy generation_config.json from the source", "the folder against --from"),
	kind("side-missing", ruleSide, Warning, "a file that the source has beside its weights is missing",
		"Code or tables of the model may be in it.", "It depends on the file.", "copy the file from the source", "the folder against --from"),
}

// tokenizerKinds are about the tokenizer and the chat template.
var tokenizerKinds = []Kind{
	mended(kind("tokenizer-truncation", ruleTokenizer, Error, "a truncation is baked into tokenizer.json",
		"Calibration scripts switch truncation on, and saving the tokenizer keeps it.", "Programs that use the file as it is cut every prompt to that length without a word.", "set truncation to null, or take the tokenizer from the source", "truncation in tokenizer.json"), MendTokenizer),
	mended(kind("tokenizer-padding", ruleTokenizer, Warning, "a padding is baked into tokenizer.json",
		"Calibration scripts switch padding on, and saving the tokenizer keeps it.", "Programs that use the file as it is put pad tokens into prompts.", "set padding to null, or take the tokenizer from the source", "padding in tokenizer.json"), MendTokenizer),
	kind("tokenizer-unreadable", ruleTokenizer, Error, "a file of the tokenizer is no JSON object",
		"It was cut, or is a pointer to a file that was never fetched.", "It fails to start.", "copy the file from the source", "tokenizer.json and tokenizer_config.json"),
	kind("tokenizer-vocabulary", ruleTokenizer, Error, "the tokenizer has ids beyond the embedding's rows",
		"Tokens were added, or the tokenizer is another model's.", "It reads past the table: a crash, or another token's vector.", "take the tokenizer from the source", "the largest id in tokenizer.json against the rows of the embedding"),
	kind("bos-twice", ruleTokenizer, Error, "a token list begins with the begin token twice",
		"The tokenizer adds one and the chat template another. Models have never seen two; perplexities over such texts are not comparable.", "Prompts that are rendered and then tokenized begin with two.", "tokenize rendered templates without special tokens, or make the list again", "tokens.jsonl against the begin token of tokenizer_config.json"),
	kind("bos-added-twice", ruleTokenizer, Note, "the tokenizer adds a begin token and so does the chat template",
		"That is so for some models as released; whoever renders the template must tokenize without special tokens.", "Ones that render and tokenize in two steps give the model two begin tokens.", "tokenize rendered templates without special tokens", "add_bos_token and chat_template, or the same in GGUF metadata"),
	mended(kind("tokenizer-missing", ruleTokenizer, Error, "the source has a tokenizer and this has none",
		"Saving the model does not save the tokenizer.", "It fails to start.", "copy the tokenizer from the source", "tokenizer files against --from"), MendTokenizer),
	mended(kind("tokenizer-differs", ruleTokenizer, Error, "the tokenizer differs from the source's",
		"Tokens, merges, added tokens, the normalizer, the pre-tokenizer, the post-processor or the decoder are not the same; order and formatting do not count.", "Texts become other ids than the model was trained on.", "take the tokenizer from the source", "tokenizer.json against that of --from, part by part"), MendTokenizer),
	mended(kind("tokenizer-config-differs", ruleTokenizer, Warning, "tokenizer_config.json or special_tokens_map.json differs from the source's",
		"Special tokens, or what is added to a text, are others.", "Prompts begin or end with other tokens.", "take the tokenizer from the source", "values that change ids, against those of --from"), MendTokenizer),
	mended(kind("chat-template-differs", ruleTokenizer, Error, "the chat template differs from the source's",
		"It was edited, or is of another version.", "Prompts are laid out in a way that the model was not trained on: tools and reasoning fail first.", "take the template from the source", "the template against that of --from, blanks at line ends aside"), MendTemplate),
}

// sourceKinds are what only the source shows.
var sourceKinds = []Kind{
	mended(kind(idMTPDropped, ruleSource, Error, "the source has MTP layers and this has none",
		"The model class that was quantized has no MTP part.", "It cannot draft: slower, and an error where speculative decoding is set.", "graft the MTP tensors from the source", "names of MTP layers against --from"), MendGraft),
	kind("tensors-missing", ruleSource, Error, "modules that the source has are missing",
		"They were not saved.", "It fails, or serves them uninitialised.", "compare with the source checkpoint", "modules by name against --from"),
	kind("config-differs", ruleSource, Warning, "values of config.json that change outputs differ from the source's",
		"The model class rewrote the config, or it was edited.", "It computes another model.", "take the values from the source", "keys of config.json against --from, but for versions, dtypes and the quantization config"),
}

// weightKinds are found with --weights alone.
var weightKinds = []Kind{
	kind("weight-nonfinite", ruleWeights, Error, "plain weights are NaN or infinite",
		"One such value makes a whole hidden state NaN.", "It answers with one repeated token, or with nothing.", "take the tensor from the source", "every element of every plain tensor (--weights)"),
	kind("tied-copies-differ", ruleWeights, Error, "the two copies of tied weights differ",
		"The head was changed and the embedding was not, or the other way round.", "Which one counts depends on the loader.", "untie them in the config, or take one out", "bytes of lm_head and embedding (--weights)"),
}

// effectiveKinds hold what was asked for against what is stored.
var effectiveKinds = []Kind{
	kind("recipe-not-followed", ruleEffective, Error, "matrices are not stored as the recipe asks",
		"A tool fell back to another format, or did not reach the matrices.", "It serves what is stored: another size and quality than was asked for.", "quantize these again, or correct the recipe", "every matrix of --recipe against its tensors"),
	kind("recipe-pattern-unmatched", ruleEffective, Warning, "a pattern of the recipe matches nothing",
		"It is misspelt, or the names changed when the checkpoint was written.", "Nothing.", "correct the pattern", "patterns of --recipe against names"),
	kind("recipe-overlap", ruleEffective, Error, "two groups of the recipe match the same matrices",
		"Which one counts is not said.", "Nothing.", "make the patterns exclude one another", "patterns of --recipe against names"),
}

// ggufKinds are about GGUF files.
var ggufKinds = []Kind{
	kind("gguf-fallback", ruleGGUF, Error, "tensors are of a fallback type, since their rows are no multiple of its block",
		"K and IQ types have blocks of 256; llama-quantize takes a larger type where a row does not fit and still ends with success. Below half of the parameters it is a warning.", "It serves a larger and different model than its name says.", "take a type with blocks of 32, or pad", "general.file_type against the types and row lengths of tensors"),
	kind("gguf-types-differ", ruleGGUF, Warning, "most parameters are of another type than general.file_type says",
		"The file is a mix of its own, or the label is stale.", "It shows the label; speed and size follow the types.", "nothing, if the mix is meant", "general.file_type against the types of tensors, by share of parameters"),
	kind("gguf-type-unknown", ruleGGUF, Error, "tensors are of a type that is not known",
		"Type numbers above the known ones mean different things in different forks.", "It refuses the file, unless it is the fork that wrote it.", "convert it with the program that wrote it", "type numbers of tensors"),
	kind("gguf-layers-missing", ruleGGUF, Error, "blocks that block_count declares are not stored",
		"A converter dropped them, or MTP blocks are counted and not stored.", "It fails: missing tensor.", "convert again", "block_count against blk.N names"),
	kind("gguf-imatrix-missing", ruleGGUF, Warning, "a type of few bits was made without an importance matrix",
		"IQ1 and IQ2 types lose much without one.", "Nothing; the answers are worse.", "quantize with --imatrix", "types of tensors against quantize.imatrix.* keys"),
	kind("gguf-pre-missing", ruleGGUF, Warning, "a BPE tokenizer without its pre-tokenizer",
		"tokenizer.ggml.pre says how text is cut before merging.", "It falls back to a default and gives other ids.", "convert again with a converter that knows the tokenizer", "tokenizer.ggml.model and tokenizer.ggml.pre"),
	kind("gguf-nonfinite", ruleGGUF, Error, "values are NaN or infinite",
		"Importance data that were NaN, or a bad scale.", "It answers with one repeated token.", "quantize this tensor again", "every value of every tensor (--weights)"),
}

// logKinds are found in logs.
var logKinds = []Kind{
	kind("log-failed", ruleLog, Error, "the log has an error", "The run may have ended before all was written.", "It serves what is there.", "run again", "tracebacks and fatal errors"),
	kind("log-fallback", ruleLog, Error, "something other than was asked for ran", "A fallback is said in one line and the run ends with success. Where it is about speed alone, or a device, it is a note.", "It serves the fallback.", "make what was asked for possible, or ask for what ran", "lines with fallback and its like"),
	kind("log-not-available", ruleLog, Warning, "something was not available", "What was asked for could not be used. Where it is about a kernel it is a note.", "It depends on what it was.", "install it, or do without on purpose", "lines with not available and its like"),
	kind("log-ignoring", ruleLog, Warning, "a setting or data were ignored", "What was asked for had no influence.", "Nothing.", "take the setting out, or make it heard", "lines with ignoring and its like"),
	kind("log-uniform-observer", ruleLog, Error, "an importance recipe ran with uniform weights", "The importance data were missing, of another size or not finite, and the observer went on without them.", "It serves a plain round to nearest under the name of a calibrated recipe.", "give the importance data, and look for this line again", "lines of observers that go on without importance"),
	kind("log-skipped", ruleLog, Warning, "modules were skipped", "They stay in floating point; the ignore list must name them.", "It looks for scales where the ignore list does not.", "see that the config ignores them", "lines with skipped, not quantized and their like"),
	kind("log-missing-keys", ruleLog, Error, "tensors were missing when the checkpoint was loaded", "The loader initialised them at random.", "It serves random weights in these places.", "see where these tensors went", "load reports of transformers, vLLM and SGLang"),
	kind("log-unexpected-keys", ruleLog, Warning, "tensors were not used when the checkpoint was loaded", "The class that was loaded has no such parameters.", "It serves a model without them.", "load the class that has them", "load reports of transformers, vLLM and SGLang"),
	kind("log-uncalibrated", ruleLog, Error, "experts or layers were not calibrated", "No calibration token reached them.", "Their scales are defaults: bad experts.", "calibrate all experts, or with more text", "lines of calibration"),
	kind("log-nonfinite", ruleLog, Error, "losses or scales became NaN or infinite", "A factorization failed, or activations overflowed.", "It serves what came of it.", "raise the damping, or look at the layer", "lines with NaN or infinite losses"),
}

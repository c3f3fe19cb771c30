package tokenizer

// splitRules is how a pre-tokenizer that GGUF files name cuts text: patterns one
// after the other, each on what the ones before left. They are those that llama.cpp
// (src/llama-vocab.cpp), which reads the same files, goes by.
type splitRules struct {
	patterns     []string
	ignoreMerges bool // a word that is a token is that token, whatever merges say
	addBOS       bool // where the file does not say
	plain        bool // the vocabulary spells text as it is, with a sign for spaces, not bytes as characters
}

const (
	splitGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`

	endings = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])` // of English words
	blanks  = `\s*[\r\n]+|\s+(?!\S)|\s+`
	marks   = ` ?[^\s\p{L}\p{N}]+[\r\n]*|` + blanks
	words   = `[^\r\n\p{L}\p{N}]?\p{L}+`

	splitLlama3 = endings + `|` + words + `|\p{N}{1,3}|` + marks
	splitQwen2  = endings + `|` + words + `|\p{N}|` + marks
	splitQwen35 = endings + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + blanks

	// Words that change from upper to lower case once.
	upper       = `[\p{L}&&[^a-z]]`
	lowers      = `[\p{L}&&[^A-Z]]`
	casedStart  = `[^\r\n\p{L}\p{N}]?` + upper + `*` + lowers + `+`
	casedAll    = `[^\r\n\p{L}\p{N}]?` + upper + `+` + lowers + `*`
	casedMarks  = ` ?[^\s\p{L}\p{N}]+[\r\n/]*|` + blanks
	splitTekken = casedStart + `|` + casedAll + `|\p{N}|` + casedMarks
	splitGPT4o  = casedStart + endings + `?|` + casedAll + endings + `?|\p{N}{1,3}|` + casedMarks

	splitChinese   = `[一-龥\x{3040}-ゟ゠-ヿ]+`
	splitDeepSeek3 = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" + `|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` + blanks

	// Letters of scripts that have cases, as DeepSeek LLM lists them.
	splitCased = `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`
)

// preTokenizers are the names of tokenizer.ggml.pre.
var preTokenizers = map[string]splitRules{}

func init() {
	add := func(r splitRules, names ...string) {
		for _, n := range names {
			preTokenizers[n] = r
		}
	}
	one := func(patterns ...string) splitRules { return splitRules{patterns: patterns} }
	add(one("[\\p{P}$+<=>^~|]+", splitGPT2, `\p{N}+`, `[0-9][0-9][0-9]`), "default")
	add(one(splitGPT2), "gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "gigachat", "a.x-4.0", "mellum", "modern-bert")
	add(splitRules{patterns: []string{splitLlama3}, ignoreMerges: true, addBOS: true},
		"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2")
	add(one(splitLlama3), "dbrx", "smaug-bpe", "chatglm-bpe")
	add(splitRules{patterns: []string{splitLlama3}, ignoreMerges: true}, "glm4", "glm5")
	add(one(splitQwen2), "qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2")
	add(one(splitQwen35), "qwen35")
	add(one(`[\r\n]`, splitCased, `\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+`, `\s+\z`, `[一-龥ࠀ-一가-\x{D7FF}]+`, `\p{N}+`), "deepseek-llm")
	add(one(`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-\x{D7FF}]+`, `\p{N}`), "deepseek-coder")
	add(one(`\p{N}{1,3}`, splitChinese, splitDeepSeek3), "deepseek-v3", "hunyuan-dense", "joyai-llm")
	add(one("[\\p{P}$+<=>^~|`]+", splitGPT2, `[0-9][0-9][0-9]`), "falcon")
	add(one(`\p{N}`, splitGPT2), "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b")
	add(splitRules{patterns: []string{splitTekken}, ignoreMerges: true, addBOS: true}, "tekken")
	add(one(splitGPT4o), "gpt-4o", "llama4", "kanana2", "minimax-m2")
	add(one(`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|`+words+`|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`), "bailingmoe", "bailingmoe2", "llada-moe")
	add(one(endings+`|`+words+`|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|`+blanks), "seed-coder")
	add(one(` ?[^(\s|.,!?…。，、।۔،)]+`), "bloom", "poro-chat", "gpt3-finnish")
	add(one(` ?[^(\s|.,!?…。，、।۔،)]+`, `\p{N}`), "viking")
	add(splitRules{patterns: []string{`[^\n]+|\n+`}, addBOS: true, plain: true}, "gemma4")
}

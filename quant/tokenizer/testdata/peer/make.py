"""Makes the files of this folder with the tokenizers library (0.23.3).

Each NAME.json holds a small tokenizer.json with one feature or a released
family's arrangement of them, and what the library makes of texts.json: ids,
ids with the post-processor, decoded texts. Run: python make.py. Training draws anew: some files then hold
other tokenizers, which are to pass as well.
"""
import gzip, itertools, json, random, re
import tokenizers
from tokenizers import Tokenizer, models, trainers, pre_tokenizers, AddedToken, Regex

TEXT = """The quick brown fox jumps over the lazy dog. It's what they'd say: we're here, you've seen it, I'll go, I'm done, he can't.
A checkpoint of 1234567 tensors, 3.14159 seconds, 2026-11-30, 100,000 rows. function_name(x, y) { return x + y * 2; } // comment
Voix ambiguë d'un cœur qui préfère les jattes de kiwis. Größe, Übung, Straße, naïve café. Привет, мир! Съешь ещё этих мягких булок.
你好，世界。天地玄黃，宇宙洪荒。日本語のテキストです。カタカナ。한국어 문장입니다. नमस्ते दुनिया। مرحبا بالعالم. שלום עולם. ไทย
HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>\n\t<body>\n\t\t<p>Hello</p>\n\t</body>\n</html>\n
emoji 👩‍👩‍👧 🇩🇪 😀 and symbols €£¥ ½ ² ① ﬁ ℃ ™ — “quotes” ‘single’ … camelCaseWords SHOUTING MixedUP iPhone
""" * 3

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\r\n\r\n", " \n ", "a", " a", "a ", "  a  b   c    ", "Hello, world!", "Hello world", "hello WORLD Hello",
    "I'm you're WE'LL he'd IT'S don'T 'tis ’s it’s", "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'VE 'M 'LL 'D", "'\u017ft 'K\u017f",
    "1 12 123 1234 12345 1234567890123", "3.14159e-10 0x7FFF 1,000,000.00", "①②③ ½ ⅷ ٠١٢٣٤٥ १२३४ 一二三", "x1y22z333", "100% #1 @home $5 €6 a&b a+b=c",
    "foo_bar __init__ snake_case camelCase PascalCase HTTPServer iOS", "for (int i = 0; i < n; i++) {\n\ta[i] = 0;\n}\n", "def f(x):\n    return x\n\n\nclass A:\n        pass",
    "one\ntwo\n\nthree\r\nfour\r\n\r\nfive\rsix", "trailing   \n   leading", "tab\tand\t\ttab \t mix", "nbsp\u00a0here\u00a0\u00a0twice", "\u2003em\u2003space\u3000ideographic\u2028line\u2029para\u0085nel",
    "café cafe\u0301 ñ n\u0303 Å A\u030a \u212b", "ﬁ ﬂ ﬆ ½ ² ℃ ™ Ⅷ ㎏ ｆｕｌｌｗｉｄｔｈ ｶﾞ", "Größe STRASSE Straße ẞ İstanbul ıI ΣΑΣ σς", "Привет, мир! Ёлка ёж",
    "你好，世界。天地玄黃", "日本語のテキスト、カタカナ。ｱｲｳ", "한국어 문장입니다 각 ㄱㅏ", "नमस्ते दुनिया क्षत्रिय", "مرحبا بالعالم، كيف؟", "שלום עולם", "ภาษาไทย ສະບາຍດີ ខ្មែរ မြန်မာ",
    "👩‍👩‍👧 family 🇩🇪🇫🇷 flags 😀😃 ✊🏽", "a\u0300\u0301\u0302b\u0308\u0327", "e\u0301\u0327 \u0345\u03b1\u0313", "zero\u200bwidth\u200cjoin\u200der\u2060\ufeffbom", "\ufefftext", "nul\x00byte \x01\x02\x7f \x1b[0m",
    "replacement \ufffd \ufffd\ufffd", "private \ue000 \U000f0000 unassigned \u0378", "astral 𝔘𝔫𝔦 𐐀𐐨 𒀀 𠀀", "\u2581\u2581lower\u2581block \u2581", "▁▁ ▁a▁b", "<s> </s> <unk> <pad>", "<s>", "text <s>inside</s> text", "a<s>b", " <s> ", "<|endoftext|>",
    "x<|endoftext|>y<|endoftext|><|endoftext|>", "<|im_start|>user\nhi<|im_end|>", "<|im_start|> <|im_end|", "NEWWORD newword NewWord", "xNEWWORDx NEWWORD.", "NEWWORD NEWWORD", "strip  <mask>  both", "   <mask><mask>   ", "a <mask>", "<mask> a",
    "http://example.org/path?q=1&r=2#frag", "a@b.co (parenthetical) [brackets] {braces} <angles>", "!!! ??? ... ---- ==== **** ~~~~", "“quoted” ‘single’ — dash – en … dots", "¿Qué? ¡Sí! «guillemets»", "a/b\\c|d^e~f`g", "$$x^2$$ \\frac{a}{b}", "。。。、、、！！",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababababababababab" * 4, " " * 70, "\n" * 70, "0" * 70, "=" * 70, "ééééééééééééééééééééééééééééé", "the quick brown fox jumps over the lazy dog " * 3,
    "Line one.\n  Indented.\n\tTabbed.\n\n    * bullet\n    * bullet\n", "{\"key\": [1, 2.5, true, null], \"s\": \"a\\nb\"}", "A" * 40 + "b" * 40, "ꙮ ᚠᛇᚻ ☃ ⌘ ∀x∈ℝ ∑ √ ∞", "Ǆ ǅ ǆ ʰ ª º ᵃ", "I  I   I", "x\u0301", "\u0301x", "\u0301", "l'été d'hiver qu'il",
    "1a2b3c 4D 5th 2nd", "___ _ _a a_", "a\n", "\na", " \na", "a \n", "a\n b", "a \n b", "a  \n\n  b", "\r", "\r\r", "a\r b", "end.", "END", "Σ", "ß", "K \u212a k", "ᾼ ᾳ", "e\u0301" * 10,
]


def base(kind="bytelevel", size=520, specials=("<unk>", "<s>", "</s>"), fallback=False, **kw):
    """A small BPE: byte-level, or of characters with ▁."""
    if kind == "bytelevel":
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tr = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    elif kind == "unigram":
        t = Tokenizer(models.Unigram())
        t.pre_tokenizer = pre_tokenizers.Metaspace()
        tr = trainers.UnigramTrainer(vocab_size=size, special_tokens=list(specials), unk_token="<unk>", show_progress=False)
    else:
        t = Tokenizer(models.BPE(unk_token="<unk>"))
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
        bytes_ = ["<0x%02X>" % i for i in range(256)] if fallback else []
        tr = trainers.BpeTrainer(vocab_size=size + len(bytes_), special_tokens=list(specials) + bytes_, limit_alphabet=150, show_progress=False)
    t.train_from_iterator(TEXT.split("\n"), tr)
    j = json.loads(t.to_str())
    j["pre_tokenizer"] = None
    if kind != "bytelevel":
        j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    return j


GPT2 = None
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
TEKKEN = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"\p{N}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
KIMI = "|".join([
    r"[\p{Han}]+", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

BL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BLR = dict(BL, use_regex=True)


def seq(*p):
    return {"type": "Sequence", "pretokenizers": list(p)}


def nseq(*p):
    return {"type": "Sequence", "normalizers": list(p)}


def split(regex=None, string=None, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex} if regex is not None else {"String": string}, "behavior": behavior, "invert": invert}


def template(before, after, ids):
    special = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in before + after}
    tok = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    single = [tok(t) for t in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + [tok(t) for t in after]
    return {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": special}


def added(content, id, **kw):
    return dict({"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}, **kw)


META = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
SPMDECODE = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
CASES = {}


def case(name, j, **parts):
    j = json.loads(json.dumps(j))
    model = parts.pop("model", {})
    j["model"].update(model)
    j["added_tokens"] = j["added_tokens"] + parts.pop("more", [])
    j.update(parts)
    CASES[name] = j


def build():
    bl, ch, fb, un = base(), base("char"), base("char", fallback=True), base("unigram", 400)
    n = len(bl["model"]["vocab"])
    end = [added("<|endoftext|>", n), added("<|im_start|>", n + 1), added("<|im_end|>", n + 2)]
    DEC = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    for name, p in {"llama3": LLAMA3, "qwen2": QWEN2, "qwen35": QWEN35, "phi4_cl100k": CL100K, "gpt_oss_o200k": O200K, "tekken": TEKKEN, "kimi": KIMI, "bloom": BLOOM}.items():
        case(name, bl, pre_tokenizer=seq(split(p), BL), decoder=DEC, more=end, model={"ignore_merges": name in ("llama3", "tekken")},
             normalizer={"type": "NFC"} if name.startswith("qwen") else None,
             post_processor={"type": "Sequence", "processors": [BL, template(["<s>"], [], bl["model"]["vocab"])]} if name == "llama3" else None)
    case("removed_inverted", bl, pre_tokenizer=seq(split(CL100K, behavior="Removed", invert=True), BL), decoder=DEC)
    case("gpt2", bl, pre_tokenizer=dict(BLR), decoder=DEC, post_processor=BLR)
    case("gpt2_prefix", bl, pre_tokenizer=dict(BLR, add_prefix_space=True), decoder=DEC, more=end)
    case("starcoder_smollm", bl, pre_tokenizer=seq({"type": "Digits", "individual_digits": True}, BLR), decoder=DEC, more=end)
    case("falcon", bl, pre_tokenizer=seq({"type": "Punctuation", "behavior": "Contiguous"}, BLR, {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")), decoder=DEC)
    case("deepseek_v3", bl, pre_tokenizer=seq(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"),
         split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), BL), decoder=DEC, more=end)
    case("deepseek_coder", bl, pre_tokenizer=seq(split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), {"type": "Digits", "individual_digits": True}, BL), decoder=DEC)
    case("superbpe", bl, pre_tokenizer=seq(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), BL), decoder=DEC)
    case("aya_digits", bl, pre_tokenizer=seq(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(O200K), BL), decoder=DEC)
    for b, inv in itertools.product(["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"], [False, True]):
        case("split_%s%s" % (b, "_inverted" if inv else ""), bl, pre_tokenizer=seq(split(r"[aeiou]|\s", behavior=b, invert=inv), BL), decoder=DEC)
    case("split_empty_match", bl, pre_tokenizer=seq(split(r"\s*"), BL), decoder=DEC)
    for b, inv in itertools.product(["Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"], [False, True]):
        case("split_empty_%s%s" % (b, "_inverted" if inv else ""), bl, pre_tokenizer=seq(split(r"[ht]*|(?=e)", behavior=b, invert=inv), BL), decoder=DEC)
    case("split_syntax", bl, pre_tokenizer=seq(split(r"(?i:the)\b|(?i:[s-u]\d)|\x{4f60}|[\x41-\x{5A}]{2,4}|^\w|\w$|(?>a+)b|[[:alpha:]&&[^a-m]]+|\d{2,}|\S\z|\p{^L}{3}|[^\W\d_]{1,2}"), BL), decoder=DEC)
    case("whitespace", bl, pre_tokenizer=seq({"type": "Whitespace"}, BL), decoder=DEC)
    case("whitespace_split", bl, pre_tokenizer=seq({"type": "WhitespaceSplit"}, BL), decoder=DEC)
    case("char_delimiter", bl, pre_tokenizer=seq({"type": "CharDelimiterSplit", "delimiter": "e"}, BL), decoder=DEC)
    for b in ["Removed", "MergedWithPrevious", "MergedWithNext", "Isolated"]:
        case("punctuation_" + b, bl, pre_tokenizer=seq({"type": "Punctuation", "behavior": b}, BL), decoder=DEC)
    for s in ["NFC", "NFD", "NFKC", "NFKD"]:
        case("norm_" + s, bl, pre_tokenizer=BLR, normalizer={"type": s}, decoder=DEC)
    case("norm_lower_accents", bl, pre_tokenizer=BLR, normalizer=nseq({"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}), decoder=DEC)
    case("norm_lower", bl, pre_tokenizer=BLR, normalizer={"type": "Lowercase"}, decoder=DEC)
    case("norm_strip", bl, pre_tokenizer=BLR, normalizer={"type": "Strip", "strip_left": True, "strip_right": True}, decoder=DEC, more=end)
    case("norm_replace_regex", bl, pre_tokenizer=BLR, normalizer=nseq({"type": "Replace", "pattern": {"Regex": r" {2,}"}, "content": " "}, {"type": "Replace", "pattern": {"Regex": r"x+|(?=q)qu"}, "content": "-"}), decoder=DEC)
    case("norm_bytelevel", bl, normalizer={"type": "ByteLevel"}, decoder=DEC)
    case("added_flags", bl, pre_tokenizer=BLR, decoder=DEC, more=[
        added("NEWWORD", n, single_word=True, special=False), added("<mask>", n + 1, lstrip=True, rstrip=True), added("fox", n + 2, special=False, normalized=True), added("quick brown", n + 3, special=False),
        added("quick", n + 4, special=False), added("Hello", n + 5, normalized=True, special=False, lstrip=True), added("你好", n + 6, special=False, single_word=True), added("\n\n", n + 7, special=False)])
    case("added_single_word", bl, pre_tokenizer=BLR, decoder=DEC, more=[added(w, n + i, single_word=True, special=False) for i, w in enumerate(["ick", "bro", "lazy", "over the", "IT", "qu"])])
    case("added_many", bl, pre_tokenizer=BLR, decoder=DEC, more=[added(w, n + i, special=False) for i, w in enumerate(["t", "th", "the ", "the quick", "the quick br", "trailing", "two\n", "tab", "t mi", "e\u0301e"])])
    case("added_normalized", bl, pre_tokenizer=BLR, normalizer=nseq({"type": "Lowercase"}, {"type": "Prepend", "prepend": "_"}), decoder=DEC, more=[added("NEWWORD", n, special=False, normalized=True), added("Hello", n + 1, special=False, normalized=True), added("<mask>", n + 2, rstrip=True)])
    case("merge_twice", bl, pre_tokenizer=BLR, decoder=DEC, model={"merges": bl["model"]["merges"] + [bl["model"]["merges"][0], bl["model"]["merges"][5]]})
    case("merge_strings", bl, pre_tokenizer=BLR, decoder=DEC, model={"merges": [" ".join(m) for m in bl["model"]["merges"]]})
    case("roberta", bl, pre_tokenizer=BLR, decoder=DEC, post_processor={"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": True})
    case("no_decoder", bl, pre_tokenizer=BLR)
    v = fb["model"]["vocab"]
    case("llama2_mistral1", fb, normalizer=nseq({"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}), decoder=SPMDECODE, model={"byte_fallback": True, "fuse_unk": True}, post_processor=template(["<s>"], [], v))
    case("gemma", fb, normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, pre_tokenizer=split(string=" ", behavior="MergedWithPrevious"), decoder={"type": "Sequence", "decoders": SPMDECODE["decoders"][:3]}, model={"byte_fallback": True, "fuse_unk": True}, post_processor=template(["<s>"], [], v),
         more=[added("\n\n", len(v), special=False), added("\n\n\n", len(v) + 1, special=False), added("▁▁", len(v) + 2, special=False), added("<mask>", len(v) + 3, special=False)])
    for s in ["always", "first", "never"]:
        for sp in [True, False]:
            case("metaspace_%s_%s" % (s, "split" if sp else "whole"), fb, pre_tokenizer=dict(META, prepend_scheme=s, split=sp), decoder=dict(META, prepend_scheme=s, split=sp), model={"byte_fallback": True})
    case("metaspace_sequence", ch, pre_tokenizer=seq({"type": "WhitespaceSplit"}, dict(META, prepend_scheme="first")), decoder=META, model={"fuse_unk": True})
    case("metaspace_first_after_split", ch, pre_tokenizer=seq(split(r"\d"), dict(META, prepend_scheme="first")), decoder=META)
    case("unk_each", ch, pre_tokenizer=META, decoder=META, model={"fuse_unk": False})
    case("unk_fused", ch, pre_tokenizer=META, decoder=META, model={"fuse_unk": True})
    some = {k: i for i, k in enumerate([k for k in sorted(v, key=v.get) if not (k.startswith("<0x") and k > "<0xE5>")])}
    case("bytes_some_missing", fb, pre_tokenizer=META, decoder=SPMDECODE, model={"byte_fallback": True, "fuse_unk": True, "vocab": some, "merges": [m for m in fb["model"]["merges"] if m[0] + m[1] in some]})
    case("unigram", un, pre_tokenizer=META, decoder=META, normalizer={"type": "NFKC"}, post_processor=template([], ["</s>"], {"</s>": 2}))
    case("unigram_t5", un, pre_tokenizer=seq({"type": "WhitespaceSplit"}, META), decoder=META)
    uv = un["model"]["vocab"]
    case("unigram_bytes", un, pre_tokenizer=META, decoder=SPMDECODE, model={"byte_fallback": True, "vocab": uv[:3] + [["<0x%02X>" % i, -20.0] for i in range(256)] + uv[3:]})
    case("decoder_strip", fb, pre_tokenizer=META, decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "[▁e]"}, "content": " "}, {"type": "Strip", "content": "s", "start": 0, "stop": 1}, {"type": "Strip", "content": " ", "start": 2, "stop": 0}, {"type": "ByteFallback"}, {"type": "Fuse"}]}, model={"byte_fallback": True})




def marks():
    """Forms of texts with more marks in a row than a stream-safe form leaves alone."""
    texts = ["a" + "\u0301" * 40 + "b", "e\u0327\u0301" * 3 + "\u0323\u0301" * 30, "\u0301\u0323" * 20, "\u1100\u1161\u11a8" + "\u0316\u0300" * 17, "x\u0345\u0313" * 2 + "\u03b1" + "\u0345\u0301" * 16 + "\ufb01",
             "\u0fb2\u0f71\u0f80" * 12, "\u0627" + "\u0653\u0655" * 20, "\u2126\u0301" + "\u0308" * 35, "\u09c7" + "\u0301" * 32 + "\u09be"]
    forms = {"NFC": tokenizers.normalizers.NFC(), "NFD": tokenizers.normalizers.NFD(), "NFKC": tokenizers.normalizers.NFKC(), "NFKD": tokenizers.normalizers.NFKD()}
    with open("marks.json", "w") as f:
        json.dump([{"form": n, "text": s, "want": x.normalize_str(s)} for n, x in forms.items() for s in texts], f, ensure_ascii=True, indent=0)


def main():
    marks()
    build()
    with open("texts.json", "w") as f:
        json.dump(TEXTS, f, ensure_ascii=True, indent=0)
    rnd = random.Random(6)
    for name, j in sorted(CASES.items()):
        t = Tokenizer.from_str(json.dumps(j))
        out = []
        for s in TEXTS:
            a, b = t.encode(s, add_special_tokens=False), t.encode(s)
            out.append({"ids": a.ids, "all": b.ids, "text": t.decode(a.ids, skip_special_tokens=False), "plain": t.decode(b.ids, skip_special_tokens=True)})
        size = t.get_vocab_size()
        decode = []
        for _ in range(20):
            ids = [rnd.randrange(size) for _ in range(rnd.randrange(1, 12))]
            decode.append({"ids": ids, "text": t.decode(ids, skip_special_tokens=False), "plain": t.decode(ids, skip_special_tokens=True)})
        with gzip.GzipFile(name + ".json.gz", "wb", mtime=0) as f:
            f.write(json.dumps({"tokenizers": tokenizers.__version__, "tokenizer": j, "vocab": size, "cases": out, "decode": decode}, ensure_ascii=True, separators=(",", ":")).encode())


main()

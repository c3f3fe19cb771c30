package layout

import (
	"fmt"
	"strings"

	"quantscope/quant/checkpoint"
)

// Reading says in words how a module is read where conventions differ: how codes lie in
// bytes and words, what zero points are, what scales are and whether they multiply.
func (m *Module) Reading() string {
	var said []string
	add := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	p := m.packed
	switch {
	case m.Method == MLX:
		m.readMLX(add)
	case p == nil:
		m.readCommon(add)
	case m.Method == GPTQ:
		add("%d-bit codes in words along the inputs", p.bits)
		switch {
		case p.minus1 && p.bits == 3:
			add("zero points stored minus 1, each by itself")
		case p.minus1:
			add("zero points stored minus 1, word by word")
		default:
			add("zero points as stored")
		}
	case p.gemv:
		add("nibbles of a word in order along the inputs")
		add("zero points as stored, rows filled up to whole words")
	case m.Method == AWQ:
		add("nibbles of a word in the order 0 2 4 6 1 3 5 7 of outputs")
		add("zero points as stored")
	default:
		m.readOwn(p, add)
	}
	if p != nil && p.index != nil {
		add("groups by %s", lastPart(p.index.Name))
	}
	if t := m.columns.t; t != nil {
		add("columns times pre_quant_scale")
	}
	return strings.Join(said, ", ")
}

// readCommon says it of the kernels' formats.
func (m *Module) readCommon(add func(string, ...any)) {
	switch {
	case m.format.Element == "e4m3":
		add("a byte a code (E4M3)")
	case m.words:
		add("4-bit codes plus 8 in words along the inputs, the first in the lowest bits")
		if m.zeros {
			add("zero points plus 8 in words along the outputs")
		}
	case m.book.t != nil:
		add("2-bit codes, the first input in the lowest bits, each one of four values in %s (E2M1, ascending)", bookParam)
	case m.format.Element == "e2m1":
		add("even input in the low nibble")
	case m.format.Element == "int4":
		add("even input in the low nibble, minima in bf16")
	}
	if t := m.scales.t; t != nil && m.format.Scale == "e8m0" {
		add("scales are powers of two in %s (E8M0)", t.DType)
	}
	switch {
	case m.tileR > 0:
		scale := m.scales.t
		add("a scale for each %d×%d that multiplies", m.tileR, m.tileC)
		if scale.DType.Bits() == 8 {
			add("scales are powers of two in %s (E8M0)", scale.DType)
		}
	case m.format.Element == "e4m3":
		add("scales multiply")
	case m.global.t == nil || m.format.TensorBytes == 0:
	case m.divides():
		add("the global scale divides")
	default:
		add("the global scale multiplies")
	}
}

// readOwn says it of what decodes itself.
func (m *Module) readOwn(p *packed, add func(string, ...any)) {
	codes := m.codes.t
	switch {
	case m.Method == CompressedTensors && codes.DType == checkpoint.I32:
		how := "dense bits"
		switch {
		case 32%p.bits == 0:
			how = "words along the inputs"
		case p.padded:
			how = "words that hold whole codes"
		}
		add("%d-bit codes plus %d in %s", p.bits, p.middle, how)
	case m.Method == ModelOpt && p.bits == 4 && p.values == nil:
		add("even output in the low nibble, codes with a sign")
	case m.Method == ModelOpt && p.bits == 4:
		add("even input in the low nibble")
	case m.Method == Quark && p.bits == 4:
		order := "0 2 4 6 1 3 5 7"
		if p.order == &inOrder {
			order = "0 to 7"
		}
		along := "inputs"
		if p.group > 0 {
			along = "outputs"
		}
		add("nibbles of a word in the order %s of %s", order, along)
	case p.values != nil:
		add("a byte a code (E4M3)")
	case p.values == nil && codes.DType == checkpoint.U8:
		add("a byte a code")
	case p.values == nil:
		add("a byte a code, with a sign")
	}
	switch {
	case p.zeros == nil && p.values == nil:
		add("no zero points")
	case p.zeros == nil:
	case m.mins.t.DType == checkpoint.I32 && m.Method == CompressedTensors:
		add("zero points in words along the outputs")
	case p.values != nil:
		add("zero points in E4M3")
	case m.Method == Quark:
		add("zero points as stored, packed as codes are")
	default:
		add("zero points a byte each, with a sign")
	}
	if t := m.scales.t; m.format.Scale == "e8m0" {
		add("scales are powers of two in %s (E8M0)", t.DType)
	}
	if m.global.t != nil {
		add("the global scale multiplies")
	}
	for _, f := range m.Fields {
		if f.Param == "weight_scale_2" && m.global.t == nil {
			add("weight_scale_2 is FP8's, that kernels round through, and not applied")
		}
	}
	switch p.round {
	case toBF16:
		add("results rounded to bf16")
	case toF16:
		add("results rounded to f16")
	}
}

// lastPart is the parameter of a tensor's name.
func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// Kind is the modules of a checkpoint that are stored and read alike.
type Kind struct {
	Method   string `json:"method"`
	Format   string `json:"format"`
	Reading  string `json:"reading"` // how, in words
	Matrices int    `json:"matrices"`
	Params   int64  `json:"params"`
	Bytes    int64  `json:"bytes"` // with scales and all
}

// Kinds sums the modules up by how they are read, in the order of the files.
func (l *Layout) Kinds() []Kind {
	type key struct{ method, format, reading string }
	at := map[key]int{}
	out := []Kind{}
	for i := range l.Modules {
		m := &l.Modules[i]
		k := key{m.Method, m.Spec.Format, m.Reading()}
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			out = append(out, Kind{Method: k.method, Format: k.format, Reading: k.reading})
		}
		out[n].Matrices++
		out[n].Params += int64(m.Rows) * int64(m.Cols)
		out[n].Bytes += m.Bytes()
	}
	return out
}

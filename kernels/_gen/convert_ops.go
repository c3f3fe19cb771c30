package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanesOf are operations on 32-bit lanes that the two widths spell apart.
type lanesOf struct {
	*build.Context
	v vectors
}

func (c lanesOf) wide() bool          { return c.v.lanes == 16 }
func (c lanesOf) new() reg.VecVirtual { return c.v.reg(c.Context) }

// all is a register with word in every lane.
func (c lanesOf) all(word uint32) reg.VecVirtual {
	g, r := c.GP32(), c.new()
	c.MOVL(operand.U32(word), g)
	if c.wide() {
		c.VPBROADCASTD(g, r)
	} else {
		c.VMOVD(g, r.AsX())
		c.VPBROADCASTD(r.AsX(), r)
	}
	return r
}

// table is read-only memory with these words.
func (c lanesOf) table(name string, words ...uint32) operand.Mem {
	mem := c.StaticGlobal(name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for _, w := range words {
		c.AppendDatum(operand.U32(w))
	}
	return mem
}

func (c lanesOf) load(m operand.Mem) reg.VecVirtual {
	r := c.new()
	c.VMOVUPS(m, r)
	return r
}

func (c lanesOf) and(x, y reg.VecVirtual) reg.VecVirtual {
	r := c.new()
	if c.wide() {
		c.VPANDD(x, y, r)
	} else {
		c.VPAND(x, y, r)
	}
	return r
}

func (c lanesOf) or(x, y reg.VecVirtual) reg.VecVirtual {
	r := c.new()
	if c.wide() {
		c.VPORD(x, y, r)
	} else {
		c.VPOR(x, y, r)
	}
	return r
}

func (c lanesOf) add(x, y reg.VecVirtual) reg.VecVirtual {
	r := c.new()
	c.VPADDD(x, y, r)
	return r
}

// sub is x−y.
func (c lanesOf) sub(x, y reg.VecVirtual) reg.VecVirtual {
	r := c.new()
	c.VPSUBD(y, x, r)
	return r
}

func (c lanesOf) left(n uint8, x reg.VecVirtual) reg.VecVirtual {
	r := c.new()
	c.VPSLLD(operand.U8(n), x, r)
	return r
}

func (c lanesOf) right(n uint8, x reg.VecVirtual) reg.VecVirtual {
	r := c.new()
	c.VPSRLD(operand.U8(n), x, r)
	return r
}

// where is a choice of lanes.
type where struct{ reg reg.Register }

// greater is where x > y as signed integers.
func (c lanesOf) greater(x, y reg.VecVirtual) where {
	if c.wide() {
		k := c.K()
		c.VPCMPGTD(y, x, k)
		return where{k}
	}
	r := c.new()
	c.VPCMPGTD(y, x, r)
	return where{r}
}

func (c lanesOf) equal(x, y reg.VecVirtual) where {
	if c.wide() {
		k := c.K()
		c.VPCMPEQD(y, x, k)
		return where{k}
	}
	r := c.new()
	c.VPCMPEQD(y, x, r)
	return where{r}
}

// pick is x there and y elsewhere.
func (c lanesOf) pick(there where, x, y reg.VecVirtual) reg.VecVirtual {
	r := c.new()
	if c.wide() {
		c.VPBLENDMD(x, y, there.reg, r)
	} else {
		c.VPBLENDVB(there.reg, x, y, r)
	}
	return r
}

// convertStep is how many elements a round of a conversion takes: package
// kernels passes multiples of it.
const convertStep = 32

// conversion is the frame of a function: constants are loaded once, round
// converts convertStep elements, dstBytes from srcBytes.
func conversion(c lanesOf, name, doc, dst, src string, constants func(), round func(dst, src reg.GPVirtual), dstBytes, srcBytes int) {
	c.Function(name + c.v.suffix)
	c.Attributes(build.NOSPLIT)
	c.Pragma("noescape")
	c.Doc(name + c.v.suffix + " is " + doc + " of n elements, a positive multiple of 32.")
	c.SignatureExpr("func(dst *" + dst + ", src *" + src + ", n int)")
	to := c.Load(c.Param("dst"), c.GP64()).(reg.GPVirtual)
	from := c.Load(c.Param("src"), c.GP64()).(reg.GPVirtual)
	n := c.Load(c.Param("n"), c.GP64()).(reg.GPVirtual)
	constants()
	c.SHRQ(operand.U8(5), n)
	c.Label("loop")
	round(to, from)
	c.ADDQ(operand.U32(dstBytes), to)
	c.ADDQ(operand.U32(srcBytes), from)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("loop"))
	c.VZEROUPPER()
	c.RET()
}

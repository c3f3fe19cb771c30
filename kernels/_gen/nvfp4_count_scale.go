package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() {
	files["nvfp4_count"] = func(ctx *build.Context) {
		for _, v := range []vectors{ymm, zmm} {
			g := &byBlock{Context: ctx, v: v}
			g.rawScales()
			g.scaleCodes()
			g.clips()
			g.depths()
			g.dense()
		}
		crowded(ctx, "nvfp4CrowdedWords", 2)
		crowded(ctx, "nvfp4CrowdedFloats", 4)
		crowdedMass(ctx, "nvfp4CrowdedMassBF16", 2)
		crowdedMass(ctx, "nvfp4CrowdedMassF32", 4)
	}
}

// byBlock writes functions with a block in each lane of f32.
type byBlock struct {
	*build.Context
	v vectors
}

// begin begins a function over groups of 16 blocks.
func (g *byBlock) begin(name, signature string, doc ...string) (params map[string]reg.GPVirtual) {
	name += g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	doc[0] = name + " " + doc[0]
	g.Doc(doc...)
	g.SignatureExpr(signature)
	return nil
}

func (g *byBlock) pointer(name string) reg.GPVirtual {
	return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual)
}

func (g *byBlock) vec() reg.VecVirtual { return g.v.reg(g.Context) }

// all is a vector of one value.
func (g *byBlock) all(bits uint32) reg.VecVirtual {
	x, r, v := g.XMM(), g.GP32(), g.vec()
	g.MOVL(operand.U32(bits), r)
	g.VMOVD(r, x)
	g.VPBROADCASTD(x, v)
	return v
}

// bytes is how far a vector of f32 reaches.
func (g *byBlock) bytes() int { return 4 * g.v.lanes }

// f32 predicates of VCMPPS and VCMPPD, false where one is NaN.
const (
	less         = operand.U8(17)
	lessEqual    = operand.U8(18)
	greaterEqual = operand.U8(29)
	greater      = operand.U8(30)
)

// bits compares f32 and gives a bit for each lane.
func (g *byBlock) bits(predicate operand.U8, a, b operand.Op) reg.GPVirtual {
	r := g.GP32()
	if g.v.lanes == 16 {
		k := g.K()
		g.VCMPPS(predicate, b, a, k)
		g.KMOVW(k, r)
	} else {
		m := g.YMM()
		g.VCMPPS(predicate, b, a, m)
		g.VMOVMSKPS(m, r)
	}
	return r
}

// instead puts value into the lanes of x that compare as wanted with b.
func (g *byBlock) instead(predicate operand.U8, x, b, value reg.VecVirtual) {
	if g.v.lanes == 16 {
		k := g.K()
		g.VCMPPS(predicate, b, x, k)
		g.VMOVAPS(value, k, x)
	} else {
		m := g.YMM()
		g.VCMPPS(predicate, b, x, m)
		g.VBLENDVPS(m, value, x, x)
	}
}

// and is VPAND, which has another name in 512 bits.
func (g *byBlock) and(a, b operand.Op, dst reg.VecVirtual) { and(g.Context, g.v, a, b, dst) }

// rawScales is nvfp4Job.rawScale.
func (g *byBlock) rawScales() {
	g.begin("nvfp4RawScales", "func(groups int, amax *uint32, raw *float32, convention int, divisor, top, global float32)",
		"puts nvfp4Job.rawScale of 16 blocks a group, groups > 0, into raw.")
	groups, amax, raw := g.pointer("groups"), g.pointer("amax"), g.pointer("raw")
	convention := g.pointer("convention")
	param := func(name string) reg.VecVirtual {
		p, err := g.Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		v := g.vec()
		g.VBROADCASTSS(p.Addr, v) // not MOVSS, which is slow beside wider registers
		return v
	}
	divisor, top, global := param("divisor"), param("top"), param("global")
	six, one, zero := g.all(0x40c00000), g.all(0x3f800000), g.all(0)
	half, bit, high := g.all(0x7fff), g.all(1), g.all(0xffff0000)
	loop := func(name string, f func(x reg.VecVirtual)) {
		g.Label(name)
		for at := 0; at < 64; at += g.bytes() {
			x := g.vec()
			g.VMOVUPS(operand.Mem{Base: amax, Disp: at}, x)
			f(x)
			g.VMOVUPS(x, operand.Mem{Base: raw, Disp: at})
		}
		g.ADDQ(operand.U8(64), amax)
		g.ADDQ(operand.U8(64), raw)
		g.DECQ(groups)
		g.JNE(operand.LabelRef(name))
		g.VZEROUPPER()
		g.RET()
	}
	const equal = operand.U8(0)
	g.CMPQ(convention, operand.U8(1))
	g.JEQ(operand.LabelRef("static"))
	g.CMPQ(convention, operand.U8(2))
	g.JEQ(operand.LabelRef("ct32"))
	g.CMPQ(convention, operand.U8(3))
	g.JEQ(operand.LabelRef("ct"))
	loop("modelopt", func(x reg.VecVirtual) {
		g.VDIVPS(divisor, x, x)
		g.instead(equal, x, zero, one)
	})
	loop("static", func(x reg.VecVirtual) {
		g.VDIVPS(six, x, x)
		g.instead(equal, x, zero, one)
		g.VMULPS(top, x, x)
		g.VDIVPS(divisor, x, x)
	})
	loop("ct32", func(x reg.VecVirtual) {
		g.VDIVPS(six, x, x)
		g.VMULPS(global, x, x)
	})
	loop("ct", func(x reg.VecVirtual) {
		g.VDIVPS(six, x, x)
		odd := g.vec()
		g.VPSRLD(operand.U8(16), x, odd)
		g.and(bit, odd, odd)
		g.VPADDD(half, x, x)
		g.VPADDD(odd, x, x)
		g.and(high, x, x)
		g.VMULPS(global, x, x)
	})
}

// scaleCodes is nvfp4Job.scaleCode.
func (g *byBlock) scaleCodes() {
	g.begin("nvfp4ScaleCodes", "func(groups int, raw *float32, scales *byte, zero uint32)",
		"puts nvfp4Job.scaleCode of 16 blocks a group, groups > 0, into scales; zero is the code where E4M3 rounds to 0.")
	groups, raw, scales := g.pointer("groups"), g.pointer("raw"), g.pointer("scales")
	zx, zero := g.XMM(), g.vec()
	r := g.Load(g.Param("zero"), g.GP32())
	g.VMOVD(r, zx)
	g.VPBROADCASTD(zx, zero)
	largest, normal, magic := g.all(0x43e00000), g.all(0x3c800000), g.all(0x46800000) // 448, 2⁻⁶, 2¹⁴
	half, bit, magicBits, bias, none := g.all(0x7ffff), g.all(1), g.all(0x46800000), g.all(120<<3), g.all(0)
	g.Label("loop")
	for at := 0; at < 64; at += g.bytes() {
		x, sub, odd := g.vec(), g.vec(), g.vec()
		g.VPMINUD(operand.Mem{Base: raw, Disp: at}, largest, x)
		g.VADDPS(magic, x, sub)
		g.VPSUBD(magicBits, sub, sub)
		g.VPSRLD(operand.U8(20), x, odd)
		g.and(bit, odd, odd)
		code := g.vec()
		g.VPADDD(half, x, code)
		g.VPADDD(odd, code, code)
		g.VPSRLD(operand.U8(20), code, code)
		g.VPSUBD(bias, code, code)
		if g.v.lanes == 16 {
			k := g.K()
			g.VPCMPD(operand.U8(1), normal, x, k)
			g.VMOVDQA32(sub, k, code)
			g.VPTESTNMD(code, code, k)
			g.VMOVDQA32(zero, k, code)
			g.VPMOVDB(code, operand.Mem{Base: scales})
		} else {
			m, low := g.YMM(), g.XMM()
			g.VPCMPGTD(x, normal, m)
			g.VPBLENDVB(m, sub, code, code)
			g.VPCMPEQD(none, code, m)
			g.VPBLENDVB(m, zero, code, code)
			g.VEXTRACTI128(operand.U8(1), code, low)
			g.VPACKUSDW(low, code.AsX(), low)
			g.VPACKUSWB(low, low, low)
			g.VMOVQ(low, operand.Mem{Base: scales, Disp: at / 4})
		}
	}
	g.ADDQ(operand.U8(64), raw)
	g.ADDQ(operand.U8(16), scales)
	g.DECQ(groups)
	g.JNE(operand.LabelRef("loop"))
	g.VZEROUPPER()
	g.RET()
}

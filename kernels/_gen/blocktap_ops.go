package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// blockGen writes functions on blocks of elements. Constants and what is the
// same for a block are held in registers where there are 32, else in memory.
type blockGen struct {
	lanesOf
	tables map[string]operand.Mem
	words  map[uint32]operand.Op
}

// param is where a parameter stands.
func (g *blockGen) param(name string) operand.Mem {
	p, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// prepare makes constants ready before a loop.
func (g *blockGen) prepare(words ...uint32) {
	for _, w := range words {
		if g.wide() {
			g.words[w] = g.all(w)
			continue
		}
		g.words[w] = g.constants(fmt.Sprintf("blocks%08x", w), w, w, w, w, w, w, w, w)
	}
}

// constants is a table that all functions of a file share.
func (g *blockGen) constants(name string, words ...uint32) operand.Mem {
	mem, ok := g.tables[name]
	if !ok {
		mem = g.table(name, words...)
		g.tables[name] = mem
	}
	return mem
}

// k is a constant that was prepared.
func (g *blockGen) k(word uint32) operand.Op {
	op, ok := g.words[word]
	if !ok {
		panic(fmt.Sprintf("constant %#x", word))
	}
	return op
}

// Operations whose first operand may be memory.

func (g *blockGen) andWith(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	r := g.new()
	if g.wide() {
		g.VPANDD(k, x, r)
	} else {
		g.VPAND(k, x, r)
	}
	return r
}

func (g *blockGen) orWith(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	r := g.new()
	if g.wide() {
		g.VPORD(k, x, r)
	} else {
		g.VPOR(k, x, r)
	}
	return r
}

func (g *blockGen) three(op func(...operand.Op), k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	r := g.new()
	op(k, x, r)
	return r
}

func (g *blockGen) addInts(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VPADDD, k, x)
}

func (g *blockGen) min(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VMINPS, k, x)
}

func (g *blockGen) max(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VMAXPS, k, x)
}

func (g *blockGen) plus(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VADDPS, k, x)
}

// minus is x−k.
func (g *blockGen) minus(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VSUBPS, k, x)
}

func (g *blockGen) times(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VMULPS, k, x)
}

// over is x/k.
func (g *blockGen) over(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VDIVPS, k, x)
}

// roundBF16 rounds finite numbers and infinities.
func (g *blockGen) roundBF16(x reg.VecVirtual) reg.VecVirtual {
	odd := g.andWith(g.k(1), g.right(16, x))
	return g.andWith(g.k(upper16), g.add(g.addInts(g.k(0x7fff), x), odd))
}

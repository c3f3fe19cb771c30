package verify

import (
	"bytes"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// recodedTotals sums up what was recoded, and wants the rest of an output that stores
// it as the source does to be the source's: headers, and what says how it is stored.
func (r *run) recodedTotals() {
	all := r.sums.recoded
	slices.SortFunc(all, func(a, b recoded) int {
		if a.order != b.order {
			return a.order - b.order
		}
		return a.part - b.part
	})
	r.rep.Recoded = len(all)
	if len(all) == 0 {
		return
	}
	inPlace := false
	possible := slices.Clone(r.methods)
	for i := range all {
		inPlace = inPlace || !all[i].packed
		possible = slices.DeleteFunc(possible, func(m string) bool { return !all[i].made[m] })
	}
	if r.stated.variant.Name == "" && len(possible) > 0 {
		r.rep.Variant, r.rep.From = variantOf(kernels.Spec{Format: "code2", Method: possible[0]}), "found"
	} else if r.stated.variant.Name != "" {
		r.rep.Variant, r.rep.From, r.rep.Calibrated = r.stated.variant.Name, r.stated.from, r.stated.variant.Calibrated()
	}
	for i := range all {
		x := &all[i]
		if !x.packed { // which were counted
			r.count(x.module)
		}
		r.rep.Convention = addWord(r.rep.Convention, x.module.Spec.Convention.String())
		made := len(x.made) > 0
		if len(possible) > 0 {
			made = x.made[possible[0]]
		}
		if made {
			r.rep.QuantizedReproduced++
		}
	}
	if r.stated.variant.Name != "" && len(r.methods) > 0 {
		for i := range all {
			if x := &all[i]; !x.made[r.methods[0]] {
				j := &r.jobs[x.order]
				r.problem(CodesDiffer, r.fileOf(j.out), j.out.Name, "codes of %s are those of a recoding, and not what %s makes of the source", x.name, r.stated.variant.Name)
			}
		}
	}
	if inPlace {
		r.asTheSource()
	}
}

// asTheSource wants all but codes to be the source's.
func (r *run) asTheSource() {
	for i := range r.src.Files {
		f := &r.src.Files[i]
		k := slices.IndexFunc(r.out.Files, func(o checkpoint.File) bool { return o.Name == f.Name })
		switch {
		case k < 0:
			r.problem(HeaderChanged, f.Name, "", "is a file of the source that the output has not, though codes alone should differ")
		case r.out.Files[k].HeaderSHA256 != f.HeaderSHA256:
			r.problem(HeaderChanged, f.Name, "", "its header is not the source's, though codes alone should differ")
		default:
			r.rep.HeadersIdentical++
		}
	}
	if r.dir != "" && !bytes.Equal(r.src.Config, r.out.Config) {
		r.problem(ConfigChanged, "config.json", "", "is not the source's byte for byte, though codes alone should differ")
	}
}

// books counts codebooks, the most frequent first.
func (r *run) books() {
	count := map[uint16]int{}
	four, few := 0, 0 // matrices of four bits, and those of them with no more than four values
	for i := range r.sums.measured {
		m := &r.sums.measured[i]
		if !m.checked || r.jobs[i].module == nil {
			continue
		}
		if j := &r.jobs[i]; j.module.FP4() && !isBook(r.specs[j.family].spec.Format) {
			if four++; m.book != 0 {
				few++
			}
		}
		if m.book != 0 {
			count[m.book]++
		}
	}
	for i := range r.sums.recoded {
		count[r.sums.recoded[i].book]++
	}
	if few > 0 {
		r.note("the codes of %d of %d matrices of four bits take no more than four values each: two bits would hold them", few, four)
	}
	r.rep.Codebooks = []Book{}
	for mask, n := range count {
		r.rep.Codebooks = append(r.rep.Codebooks, Book{Values: kernels.Codebook(mask), Tensors: n})
	}
	slices.SortFunc(r.rep.Codebooks, func(a, b Book) int {
		if a.Tensors != b.Tensors {
			return b.Tensors - a.Tensors
		}
		return slices.Compare(a.Values, b.Values)
	})
}

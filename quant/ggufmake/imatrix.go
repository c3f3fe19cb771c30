package ggufmake

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/gguf"
)

// asksImportance says whether a tensor was asked to be weighted.
func (p *Plan) asksImportance(t *Target) bool {
	return t.Kept == "" && p.Request.Importance && t.Requested.TakesImportance() && !slices.Contains(p.Unweighted, t.Name)
}

// weigh finds the importance of the columns of every matrix. llama-imatrix measures
// what goes into the linear maps of layers, and the head only when told to; embeddings
// have no inputs. Any other tensor without an entry is a fallback.
func (p *Plan) weigh() error {
	if !p.Request.Importance {
		return nil
	}
	if p.Request.Imatrix == nil {
		return fmt.Errorf("%s: errors are to be weighted, and there is no imatrix", p.Source.Path)
	}
	entries := map[string]*gguf.ImatrixEntry{}
	for i := range p.Request.Imatrix.Entries {
		e := &p.Request.Imatrix.Entries[i]
		entries[e.Name] = e
	}
	used := 0
	for i := range p.Targets {
		t := &p.Targets[i]
		if t.Kept != "" || !t.Effective.TakesImportance() {
			continue
		}
		e := entries[t.Name]
		if e == nil {
			if t.Name == "token_embd.weight" || t.Name == perLayerEmbedding || t.Name == "output.weight" || strings.HasSuffix(t.Name, ".nextn.embed_tokens.weight") {
				p.Unweighted = append(p.Unweighted, t.Name)
				continue
			}
			p.unweighted(t, t.Params(), "the imatrix has no entry of its name")
			continue
		}
		list, missing, bad := importance(e, t.Matrices(), t.Cols())
		if bad != "" {
			p.unweighted(t, t.Params(), bad)
			continue
		}
		used++
		t.importance = list
		if len(missing) > 0 {
			p.unweighted(t, t.Params()/int64(t.Matrices())*int64(len(missing)), "no token went through expert "+numbers(missing))
		}
	}
	if used == 0 {
		first := ""
		if len(p.Request.Imatrix.Entries) > 0 {
			first = fmt.Sprintf("; its first entry is %q", p.Request.Imatrix.Entries[0].Name)
		}
		return fmt.Errorf("%s: the imatrix %s has an entry for none of its tensors%s", p.Source.Path, p.Request.ImatrixFile, first)
	}
	return nil
}

func (p *Plan) unweighted(t *Target, params int64, reason string) {
	p.Fallbacks = append(p.Fallbacks, Fallback{
		Tensor: t.Name, Requested: VariantName(t.Requested, true), Effective: VariantName(t.Effective, false),
		Params: params, Share: float64(params) / float64(max(p.Params, 1)), Reason: reason,
	})
}

// importance are the mean squares of inputs for each matrix, nil for one that no
// token went through. bad says why an entry does not fit.
func importance(e *gguf.ImatrixEntry, matrices, cols int) (list [][]float32, missing []int, bad string) {
	n := len(e.Sum2)
	if n != matrices*cols {
		return nil, nil, fmt.Sprintf("the imatrix has %d columns for it, which has %d", n/max(e.Matrices, 1), cols)
	}
	list = make([][]float32, matrices)
	for k := range list {
		count := e.Counts[min(k, len(e.Counts)-1)]
		sums := e.Sum2[k*cols:][:cols]
		if count <= 0 || !slices.ContainsFunc(sums, func(x float32) bool { return x > 0 }) {
			missing = append(missing, k)
			continue
		}
		list[k] = make([]float32, cols)
		for c, x := range sums {
			list[k][c] = x / count
		}
	}
	if len(missing) == matrices {
		return nil, nil, "no token went through it when the imatrix was made"
	}
	return list, missing, ""
}

// numbers lists the first numbers and says how many more there are.
func numbers(list []int) string {
	const most = 5
	var words []string
	for i, n := range list {
		if i == most {
			return strings.Join(words, ", ") + fmt.Sprintf(" and %d more", len(list)-most)
		}
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, ", ")
}

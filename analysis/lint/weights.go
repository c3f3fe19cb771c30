package lint

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// weightStep is how many elements are read at a time.
const weightStep = 1 << 18

// weights reads every plain tensor, and head and embedding where they are tied and
// both stored.
func (r *run) weights() error {
	if !r.Weights {
		return nil
	}
	for i := range r.Checkpoint.Tensors {
		t := &r.Checkpoint.Tensors[i]
		if !plainDType(t.DType) || scaleParams[r.Model.Roles[i].Param] && !r.isFactor(t) {
			continue
		}
		if err := r.finite(t); err != nil {
			return err
		}
	}
	if r.Model.Tied && r.Model.HeadStored {
		return r.copies()
	}
	return nil
}

// finite counts what is NaN or infinite in a tensor.
func (r *run) finite(t *checkpoint.Tensor) error {
	size := int64(t.DType.Bits()) / 8
	n := t.Elements()
	var nan, inf int64
	var at []string
	for from := int64(0); from < n; from += weightStep {
		k := min(n-from, weightStep)
		raw, vals := r.memory(k*size, k)
		if err := r.Checkpoint.ReadAt(r.ctx, t, from*size, raw); err != nil {
			return err
		}
		if err := checkpoint.DecodeF32(vals, t.DType, raw); err != nil {
			return &checkpoint.FileError{File: r.Checkpoint.Files[t.File].Name, Tensor: t.Name, Reason: "cannot be read", Err: err}
		}
		for j, x := range vals {
			if math.Float32bits(x)&0x7F800000 != 0x7F800000 {
				continue
			}
			what := "Inf"
			if x != x {
				what = "NaN"
				nan++
			} else {
				inf++
			}
			if len(at) < shownPositions {
				at = append(at, what+" "+position(from+int64(j), t.Shape))
			}
		}
	}
	if nan+inf > 0 {
		r.tensor("weight-nonfinite", t, Finding{
			Message:  fmt.Sprintf("%d NaN and %d infinite of %d weights, at %s", nan, inf, n, places(at, nan+inf)),
			Evidence: []Evidence{{"NaN", fmt.Sprint(nan)}, {"infinite", fmt.Sprint(inf)}, {"first", strings.Join(at, ", ")}},
		})
	}
	return nil
}

// copies holds a stored head against the embedding that it is tied to.
func (r *run) copies() error {
	var head, embedding *checkpoint.Tensor
	for i := range r.Model.Roles {
		role := &r.Model.Roles[i]
		switch {
		case role.MTP || role.Param != "weight":
		case role.Kind == topology.Head:
			head = &r.Checkpoint.Tensors[i]
		case role.Kind == topology.Embedding && role.Projection == "":
			embedding = &r.Checkpoint.Tensors[i]
		}
	}
	if head == nil || embedding == nil {
		return nil
	}
	differ := head.DType != embedding.DType || head.Size != embedding.Size
	a, b := make([]byte, min(head.Size, 4*weightStep)), make([]byte, min(head.Size, 4*weightStep))
	for from := int64(0); from < head.Size && !differ; from += int64(len(a)) {
		k := min(head.Size-from, int64(len(a)))
		for _, x := range []struct {
			t   *checkpoint.Tensor
			raw []byte
		}{{head, a[:k]}, {embedding, b[:k]}} {
			if err := r.Checkpoint.ReadAt(r.ctx, x.t, from, x.raw); err != nil {
				return err
			}
		}
		differ = !bytes.Equal(a[:k], b[:k])
	}
	if differ {
		r.tensor("tied-copies-differ", head, Finding{Message: "differs from " + embedding.Name + ", which the config ties it to", Evidence: []Evidence{{"embedding", fmt.Sprintf("%s %v", embedding.DType, embedding.Shape)}, {"head", fmt.Sprintf("%s %v", head.DType, head.Shape)}}})
	}
	return nil
}

// ggufWeights decodes every tensor.
func (r *run) ggufWeights() error {
	if !r.Weights {
		return nil
	}
	for i := range r.GGUF.Tensors {
		t := &r.GGUF.Tensors[i]
		if !t.Type.Decodes() {
			continue
		}
		if err := r.ggufFinite(t); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) ggufFinite(t *gguf.Tensor) error {
	n := t.Elements()
	var bad int64
	var at []string
	for from := int64(0); from < n; from += weightStep { // a multiple of every block
		_, vals := r.memory(0, min(n-from, weightStep))
		if err := r.GGUF.Decode(r.ctx, t, from, vals); err != nil {
			return err
		}
		for j, x := range vals {
			if math.Float32bits(x)&0x7F800000 == 0x7F800000 {
				if bad++; len(at) < shownPositions {
					at = append(at, position(from+int64(j), t.Shape))
				}
			}
		}
	}
	if bad > 0 {
		r.add("gguf-nonfinite", Finding{
			File: r.partOf(t), Tensor: t.Name, Message: fmt.Sprintf("%d of %d values of %s are NaN or infinite, at %s", bad, n, t.Type, places(at, bad)),
			Evidence: []Evidence{{"type", t.Type.String()}, {"not finite", fmt.Sprint(bad)}},
		})
	}
	return nil
}

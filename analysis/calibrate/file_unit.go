package calibrate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"

	"quantscope/analysis/model"
	"quantscope/quant/checkpoint"
)

func newSum() hash.Hash { return sha256.New() }

// bytes is the size of an input's tensors.
func (in *storedInput) bytes() int64 {
	n := 8*int64(in.N) + 8
	if in.Hessian {
		n += 4 * triangle(in.N)
	}
	return n
}

// specs are an input's tensors, in their order.
func (in *storedInput) specs() []checkpoint.Spec {
	out := []checkpoint.Spec{
		{Name: in.At + sum2Suffix, DType: checkpoint.F64, Shape: []int64{int64(in.N)}},
		{Name: in.At + rowsSuffix, DType: checkpoint.I64, Shape: []int64{1}},
	}
	if in.Hessian {
		out = append(out, checkpoint.Spec{Name: in.At + hessianSuffix, DType: checkpoint.F32, Shape: []int64{triangle(in.N)}})
	}
	return out
}

// UnitWriter writes the moments of a unit, in any order.
type UnitWriter struct {
	w      *FileWriter
	i      int
	file   *checkpoint.AtomicFile
	inputs []storedInput
	offset []int64
	index  map[string]int
	err    error
}

// Begin begins a unit that was not measured yet.
func (w *FileWriter) Begin(unit string) (*UnitWriter, error) {
	for i, p := range w.plan.Units {
		if p.Name != unit {
			continue
		}
		if w.Has(unit) {
			return nil, fmt.Errorf("calibrate: %s has %s already", w.path, unit)
		}
		u := &UnitWriter{w: w, i: i, index: map[string]int{}, offset: make([]int64, len(p.Inputs))}
		at := int64(0)
		for k, in := range p.Inputs {
			u.inputs = append(u.inputs, in)
			u.index[in.At], u.offset[k] = k, at
			at += in.bytes()
		}
		var err error
		u.file, err = checkpoint.CreateAtomic(w.unitFile(i, "bin"))
		return u, err
	}
	return nil, fmt.Errorf("calibrate: %s has no unit %q", w.path, unit)
}

// Takes says whether the moments of an input are kept, and whether with a Hessian.
func (u *UnitWriter) Takes(at model.Place) (hessian, ok bool) {
	i, ok := u.index[at.String()]
	return ok && u.inputs[i].Hessian, ok
}

// Add writes the moments of one input. What is not finite is refused.
func (u *UnitWriter) Add(m *Moments) error {
	i, ok := u.index[m.At.String()]
	switch {
	case u.err != nil:
		return u.err
	case !ok:
		return u.fail(fmt.Errorf("calibrate: %s: %s is no input of %s", u.w.path, m.At, u.w.plan.Units[u.i].Name))
	}
	in := &u.inputs[i]
	if in.SHA256 != "" || in.N != m.N || in.Hessian && m.Rows > 0 && m.H.Data == nil {
		return u.fail(fmt.Errorf("calibrate: %s: %s has %d columns in place of %d, lacks its Hessian, or came twice", u.w.path, m.At, m.N, in.N))
	}
	if err := m.check(); err != nil {
		return u.fail(fmt.Errorf("calibrate: %s: %w", m.At, err))
	}
	out := &placed{f: u.file, at: u.offset[i], sum: newSum()}
	for _, x := range m.Sum2 {
		out.buf = binary.LittleEndian.AppendUint64(out.buf, math.Float64bits(x))
	}
	out.buf = binary.LittleEndian.AppendUint64(out.buf, uint64(m.Rows))
	if in.Hessian {
		for r := range m.N {
			if m.H.Data == nil { // of an expert that no token reached
				out.buf = append(out.buf, make([]byte, 4*(r+1))...)
			} else {
				for _, x := range m.H.Data[r*m.H.Stride:][:r+1] {
					out.buf = binary.LittleEndian.AppendUint32(out.buf, math.Float32bits(x))
				}
			}
			out.flush(1 << 20)
		}
	}
	if out.flush(0); out.err != nil {
		return u.fail(checkpoint.SystemError(u.w.unitFile(u.i, "bin"), out.err))
	}
	in.Rows, in.SHA256 = m.Rows, hex.EncodeToString(out.sum.Sum(nil))
	return nil
}

// placed gathers bytes that stand at a place in a file.
type placed struct {
	f   *checkpoint.AtomicFile
	at  int64
	buf []byte
	sum hash.Hash
	err error
}

// flush writes what was gathered, if it is more than so much.
func (p *placed) flush(keep int) {
	if len(p.buf) <= keep || p.err != nil {
		return
	}
	_, _ = p.sum.Write(p.buf) // a hash never fails
	_, p.err = p.f.WriteAt(p.buf, p.at)
	p.at += int64(len(p.buf))
	p.buf = p.buf[:0]
}

// Commit ends the unit: what is not there by now got no token. It is durable when
// this returns. counts may be nil.
func (u *UnitWriter) Commit(counts *Counts) error {
	for i := range u.inputs {
		in := &u.inputs[i]
		if in.SHA256 != "" || u.err != nil {
			continue
		}
		at, err := ParsePlace(in.At)
		if err == nil {
			err = u.Add(&Moments{At: at, N: in.N, Sum2: make([]float64, in.N)})
		}
		if err != nil {
			return u.fail(err)
		}
	}
	if counts != nil && u.err == nil {
		if err := refuseCounts([]Counts{*counts}); err != nil {
			return u.fail(fmt.Errorf("calibrate: %w", err))
		}
	}
	if u.err != nil {
		return u.err
	}
	r := &unitRecord{Inputs: u.inputs, Counts: counts}
	text, err := json.Marshal(r)
	if err != nil {
		return u.fail(err)
	}
	u.err = fmt.Errorf("calibrate: %s is complete already", u.w.plan.Units[u.i].Name)
	if err := u.file.Commit(); err != nil {
		return err
	}
	if err := checkpoint.AtomicWriteFile(u.w.unitFile(u.i, "json"), text); err != nil {
		return err
	}
	u.w.done[u.w.plan.Units[u.i].Name] = r
	return nil
}

// Abandon throws away what was written. After Commit it does nothing.
func (u *UnitWriter) Abandon() {
	if u.err == nil {
		_ = u.fail(fmt.Errorf("calibrate: %s was abandoned", u.w.plan.Units[u.i].Name)) // is what later calls return
	}
}

// fail keeps the first error and removes the file.
func (u *UnitWriter) fail(err error) error {
	if u.err == nil {
		u.err = err
		_ = u.file.Abandon() // the error that ended it says more
	}
	return err
}

// encodeChunks are the tensors of the corpus: ids, then lengths.
func encodeChunks(chunks [][]int32) []byte {
	var b []byte
	for _, c := range chunks {
		for _, id := range c {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	for _, c := range chunks {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(c)))
	}
	return b
}

func idsDigest(chunks [][]int32) string {
	sum := sha256.Sum256(encodeChunks(chunks))
	return hex.EncodeToString(sum[:])
}

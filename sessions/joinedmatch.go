package sessions

import "fmt"

// JoinError says why two sessions are not about the same weights.
type JoinError struct {
	A, B   string // paths
	Reason string
}

func (e *JoinError) Error() string {
	return "sessions: " + e.B + ": cannot be compared with " + e.A + ": " + e.Reason
}

// matching are the tensors that two sessions have in common, in the order of the
// first.
type matching struct {
	a, b           []int // indices, pair by pair
	aloneA, aloneB int   // tensors that only one has
}

// match pairs the tensors of two sessions of one source. Sessions of different
// ones are a *JoinError: another identity, or, since an identity does not cover
// weights, a tensor whose shape or digest differs.
func match(a, b *State) (*matching, error) {
	refuse := func(format string, args ...any) error {
		return &JoinError{sessionName(a), sessionName(b), fmt.Sprintf(format, args...)}
	}
	if x, y := a.Meta.SourceIdentity, b.Meta.SourceIdentity; x != y && x != "" && y != "" {
		return nil, refuse("its source is %s (%s), and %s (%s) there", b.Meta.SourcePath, short(y), a.Meta.SourcePath, short(x))
	}
	byName := make(map[string]int, len(b.Tensors))
	for i := range b.Tensors {
		byName[b.Tensors[i].Name] = i
	}
	m := &matching{}
	for i := range a.Tensors {
		x := &a.Tensors[i]
		j, ok := byName[x.Name]
		if !ok {
			m.aloneA++
			continue
		}
		if y := &b.Tensors[j]; x.Rows != y.Rows || x.Cols != y.Cols || x.DType != y.DType {
			return nil, refuse("tensor %q is %s %d×%d, and %s %d×%d there", x.Name, y.DType, y.Rows, y.Cols, x.DType, x.Rows, x.Cols)
		}
		if p, q := a.weights(i), b.weights(j); p.differs(q) {
			is, there := q.texts(p)
			return nil, refuse("weights of tensor %q have digest %s, and %s there", x.Name, is, there)
		}
		m.a, m.b = append(m.a, i), append(m.b, j)
	}
	m.aloneB = len(b.Tensors) - len(m.b)
	if len(m.a) == 0 {
		return nil, refuse("they have no tensor in common (%s and %s)", count(int64(len(b.Tensors)), "tensor"), count(int64(len(a.Tensors)), "tensor"))
	}
	return m, nil
}

// weights is the digest of what was measured of a tensor, as far as any record
// knows it.
func (s *State) weights(tensor int) digest {
	var d digest
	for v := range s.Records {
		d = d.or(digest{s.Records[v][tensor].Weights, s.Records[v][tensor].WeightsSHA})
	}
	return d
}

func sessionName(s *State) string {
	if s.Meta.Path == "" {
		return "the session in memory"
	}
	return s.Meta.Path
}

// short is the beginning of an identity, enough to tell two apart.
func short(identity string) string {
	return identity[:min(len(identity), 12)]
}

// leftOut says which tensors a matching leaves out; "" where it leaves out none.
func (m *matching) leftOut(a, b string) string {
	if m.aloneA == 0 && m.aloneB == 0 {
		return ""
	}
	return fmt.Sprintf("%s in both; %d only in %s and %d only in %s are left out", count(int64(len(m.a)), "tensor"), m.aloneA, a, m.aloneB, b)
}

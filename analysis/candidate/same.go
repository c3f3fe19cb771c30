package candidate

// Same says whether two candidates are known to present the same weights, tensor
// by tensor: a mixture that changed nothing and what it was made from are. Where
// it is not known they are not.
func Same(a, b *Candidate) (bool, error) {
	from, err := a.traced()
	if err != nil {
		return false, err
	}
	to, err := b.traced()
	if err != nil {
		return false, err
	}
	for _, it := range a.inventory() {
		if o := originOf(from, it.param); o == nil || o != originOf(to, it.param) {
			return false, nil
		}
	}
	return len(a.inventory()) == len(b.inventory()), nil
}

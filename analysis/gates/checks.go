package gates

func (a *analysis) checks(r *Report) []Check {
	var out []Check
	for _, m := range r.Meters {
		out = append(out, m.Checks...)
	}
	return out
}

package jinja

type testFunc func(r *run, v any, a args) bool

// test runs a test by its name.
func (r *run) test(name string, v any, a args) bool {
	t, ok := tests[name]
	if !ok {
		r.failf("test %s is not known (known: %s)", name, known(tests))
	}
	return t(r, v, a)
}

// tests are Jinja's, less those for HTML.
var tests map[string]testFunc

func init() {
	comparing := func(op string) testFunc {
		return func(r *run, v any, a args) bool { return r.compare(op, v, r.bind(op, a, "other")[0]) }
	}
	tests = map[string]testFunc{
		"boolean":   isType[bool],
		"string":    isType[string],
		"mapping":   isType[*Dict],
		"float":     isType[float64],
		"integer":   func(r *run, v any, a args) bool { return typeName(v) == "int" },
		"number":    func(r *run, v any, a args) bool { _, ok := number(v); return ok || typeName(v) == "int" },
		"none":      func(r *run, v any, a args) bool { return v == nil },
		"true":      func(r *run, v any, a args) bool { return v == true },
		"false":     func(r *run, v any, a args) bool { return v == false },
		"defined":   func(r *run, v any, a args) bool { return !isType[*undef](r, v, a) },
		"undefined": isType[*undef],
		"callable": func(r *run, v any, a args) bool {
			switch v.(type) {
			case *function, *macro, *loop, *undef:
				return true
			}
			return false
		},
		"iterable": func(r *run, v any, a args) bool {
			switch v.(type) {
			case string, *List, *Dict, *undef, *loop:
				return true
			}
			return false
		},
		"sequence": func(r *run, v any, a args) bool {
			switch v := v.(type) {
			case string, *Dict:
				return true
			case *List:
				return v.kind <= tuple || v.kind == span
			}
			return false
		},
		"sameas": func(r *run, v any, a args) bool {
			o := r.bind("sameas", a, "other")[0]
			if typeName(v) != typeName(o) {
				return false
			}
			switch v.(type) {
			case *List, *Dict:
				return v == o
			}
			return equal(v, o)
		},
		"odd":  func(r *run, v any, a args) bool { return r.remainder(v, int64(2)) == 1 },
		"even": func(r *run, v any, a args) bool { return r.remainder(v, int64(2)) == 0 },
		"divisibleby": func(r *run, v any, a args) bool {
			return r.remainder(v, r.bind("divisibleby", a, "num")[0]) == 0
		},
		"lower": func(r *run, v any, a args) bool {
			s := r.str(v)
			return s == lower(s) && s != upper(s)
		},
		"upper": func(r *run, v any, a args) bool {
			s := r.str(v)
			return s == upper(s) && s != lower(s)
		},
		"filter": func(r *run, v any, a args) bool { s, _ := v.(string); _, ok := filters[s]; return ok },
		"test":   func(r *run, v any, a args) bool { s, _ := v.(string); _, ok := tests[s]; return ok },
		"eq":     comparing("=="), "equalto": comparing("=="),
		"ne": comparing("!="), "lt": comparing("<"), "lessthan": comparing("<"), "le": comparing("<="),
		"gt": comparing(">"), "greaterthan": comparing(">"), "ge": comparing(">="), "in": comparing("in"),
	}
}

func isType[T any](r *run, v any, a args) bool {
	_, ok := v.(T)
	return ok
}

func (r *run) remainder(v, by any) float64 {
	e := binary{&constant{v}, &constant{by}, "%", r.line}
	f, ok := number(e.eval(r, nil))
	if !ok {
		r.failf("a number is wanted, got %s", typeName(v))
	}
	return f
}

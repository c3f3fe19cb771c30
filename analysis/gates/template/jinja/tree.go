package jinja

// expr is an expression.
type expr interface {
	eval(r *run, s *scope) any
}

type (
	constant struct{ value any }
	variable struct {
		name string
		line int
	}
	attrOf struct {
		of   expr
		name string
		line int
	}
	itemOf struct {
		of, key expr
		line    int
	}
	sliceOf struct {
		of             expr
		from, to, step expr // nil: not given
		line           int
	}
	calling struct {
		of   expr
		args arguments
		line int
	}
	filtering struct {
		of   expr // nil: what the block brings
		name string
		args arguments
		line int
	}
	testOf struct {
		of   expr
		name string
		args arguments
		line int
	}
	conditional struct{ test, then, other expr }
	both        struct{ left, right expr } // and
	either      struct{ left, right expr } // or
	negation    struct{ of expr }          // not
	signed      struct {
		of   expr
		op   string
		line int
	}
	binary struct {
		left, right expr
		op          string
		line        int
	}
	concat     struct{ parts []expr }
	comparison struct {
		first expr
		ops   []string
		with  []expr
		line  int
	}
	sequence struct {
		items []expr
		kind  kind
	}
	mapping struct {
		keys, values []expr
		line         int
	}
)

type arguments struct {
	pos           []expr
	names         []string
	named         []expr
	star, dblstar expr
}

package suite

import (
	"fmt"
	"strconv"
	"strings"
)

var kindsOfSums = []string{"sum", "difference", "product", "story", "bags", "chain", "expression"}

var arithmetic = Generator{
	Name:  "arithmetic",
	About: "Sums and word problems of one to many steps; the answer is a number from 0.",
	Args: []Arg{
		{"kinds", Words, nil, "of problems", kindsOfSums},
		{"steps", Count, 4.0, "of chain and expression", nil},
		{"hint", Text, "", "words that follow each question", nil},
	},
	one: oneProblem,
}

var (
	people = strings.Fields("Ann Ben Cara Dan Eve Finn Gus Hana Ivo June Kim Leo Mia Noa Omar Pia Ravi Sara Tom Uma Vik Wen Yara Zoe")
	things = strings.Fields("apples books coins cards pens stones shells eggs cups keys maps stamps")
)

func oneProblem(g *draw) (Case, error) {
	var ask string
	var want int
	who, what := pick(g, people), pick(g, things)
	switch kind := pick(g, g.words("kinds", kindsOfSums)); kind {
	case "sum":
		a, b := g.between(2, 60), g.between(2, 39)
		ask, want = fmt.Sprintf("What is %d+%d?", a, b), a+b
	case "difference":
		b := g.between(2, 39)
		a := g.between(b, 60)
		ask, want = fmt.Sprintf("What is %d-%d?", a, b), a-b
	case "product":
		a, b := g.between(2, 9), g.between(2, 9)
		ask, want = fmt.Sprintf("What is %d*%d?", a, b), a*b
	case "story":
		a, b := g.between(2, 60), g.between(2, 39)
		c := g.between(2, min(30, a+b))
		ask, want = fmt.Sprintf("%s has %d %s, finds %d more and gives away %d. How many %s are left?", who, a, what, b, c, what), a+b-c
	case "bags":
		a, b := g.between(2, 9), g.between(2, 9)
		c := g.between(1, min(20, a*b))
		ask, want = fmt.Sprintf("%s buys %d bags with %d %s each and loses %d. How many %s are left?", who, a, b, what, c, what), a*b-c
	case "chain":
		ask, want = chain(g, who, what)
	case "expression":
		ask, want = expression(g)
	default:
		return Case{}, fmt.Errorf("kinds: unknown %q", kind)
	}
	if hint := g.text("hint"); hint != "" {
		ask += " " + hint
	}
	return Case{Turns: []Turn{{User: ask, Want: &Want{Text: strconv.Itoa(want)}}}}, nil
}

// chain is a word problem whose every step needs the result of the one before.
func chain(g *draw, who, what string) (string, int) {
	have := g.between(10, 60)
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %d %s.", who, have, what)
	for range max(g.count("steps"), 1) {
		switch k := g.below(5); {
		case k == 0 && have <= 200:
			m := g.between(2, 4)
			fmt.Fprintf(&b, " A friend brings so many more that there are %d times as many as before.", m)
			have *= m
		case k == 1 && have%2 == 0:
			b.WriteString(" Then half of them are given away.")
			have /= 2
		case k == 2 && have > 10:
			n := g.between(2, have-1)
			fmt.Fprintf(&b, " Then %d are lost.", n)
			have -= n
		case k == 3:
			bags, each := g.between(2, 6), g.between(2, 9)
			fmt.Fprintf(&b, " %s buys %d bags with %d %s each.", who, bags, each, what)
			have += bags * each
		default:
			n := g.between(2, 40)
			fmt.Fprintf(&b, " Then %d more are found.", n)
			have += n
		}
	}
	fmt.Fprintf(&b, " How many %s are there in the end?", what)
	return b.String(), have
}

// expression nests one operation a step.
func expression(g *draw) (string, int) {
	v := g.between(2, 20)
	s := strconv.Itoa(v)
	for i := range max(g.count("steps"), 1) {
		if i > 0 {
			s = "(" + s + ")"
		}
		switch k := g.below(3); {
		case k == 0 && v <= 500:
			m := g.between(2, 9)
			s, v = fmt.Sprintf("%s*%d", s, m), v*m
		case k == 1 && v > 2:
			n := g.between(1, v-1)
			s, v = fmt.Sprintf("%s-%d", s, n), v-n
		default:
			n := g.between(2, 90)
			s, v = fmt.Sprintf("%s+%d", s, n), v+n
		}
	}
	return "What is " + s + "?", v
}

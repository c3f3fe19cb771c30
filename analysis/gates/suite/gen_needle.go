package suite

import (
	"fmt"
	"strings"
)

var needles = Generator{
	Name:    "needle",
	About:   "A passphrase of two invented words and a number, at a depth of a text of a length, and the question what it is.",
	Args:    []Arg{{"form", Text, "long", "long: the task is told before and after; short: sentences in a row and the question", []string{"long", "short"}}, {"korean", Flag, false, "the filler is Korean", nil}},
	Lengths: true, Depths: true,
	one: oneNeedle,
}

func oneNeedle(g *draw) (Case, error) {
	key := fmt.Sprintf("%s %d %s", g.name(), g.between(10, 99), g.name())
	length := g.length * 4
	if g.length == 0 {
		length = 400
	}
	korean, _ := g.arg("korean").(bool)
	var lines []string
	for size := 0; size < length || len(lines) == 0; {
		s := sentence(g, korean)
		lines, size = append(lines, s), size+len(s)+1
	}
	at := int(g.depth*float64(len(lines)) + 0.5)
	needle := "The passphrase is " + key + "."
	lines = append(lines[:at], append([]string{needle}, lines[at:]...)...)
	text := strings.Join(lines, " ")
	ask := text + " What is the passphrase?"
	if g.text("form") == "long" {
		ask = "Somewhere in the text below stands a passphrase. Read the text, then say what the passphrase is.\n\n" + text + "\n\nWhat is the passphrase? Answer with the passphrase alone."
	}
	return Case{Turns: []Turn{{User: ask, Want: &Want{Text: key}}}}, nil
}

var (
	fillerWho   = []string{"The miller", "A tall heron", "The old ferry", "Her brother", "The night watch", "A merchant", "The shepherd", "Their guide", "The gardener", "A young clerk", "The river", "The north wind", "A lamp", "The baker's cart", "The bell of the chapel", "A grey horse"}
	fillerDoes  = []string{"came down to", "waited beside", "was seen near", "turned away from", "went slowly past", "stood for a while by", "returned in spring to", "was heard from", "crossed over to", "slept within sight of", "looked back at", "took the road to"}
	fillerWhere = []string{"the long bridge", "the market", "the salt meadows", "the mill pond", "the third gate", "the harbour wall", "the orchard", "the lower village", "the hill of stones", "the glass house", "the well", "the edge of the wood"}
	fillerWhen  = []string{"at dawn", "before the rain", "in the second week", "when the tide was low", "after the harvest", "without a word", "as every year", "late in the evening", "with the others", "while the snow lay", "for the last time", "against all advice"}
	fillerKo    = [][]string{{"어부는", "늙은 말은", "그의 누이는", "밤바람은", "빵집 주인은", "젊은 서기는", "안내인은"}, {"새벽에", "비가 오기 전에", "추수가 끝난 뒤에", "늦은 저녁에", "말없이", "해마다"}, {"긴 다리를", "시장을", "과수원을", "우물을", "언덕을", "항구를"}, {"지나갔다.", "바라보았다.", "떠났다.", "찾아왔다.", "건너다보았다."}}
)

// sentence is one of 27,648 English or 1,260 Korean ones.
func sentence(g *draw, korean bool) string {
	if korean {
		var words []string
		for _, of := range fillerKo {
			words = append(words, pick(g, of))
		}
		return strings.Join(words, " ")
	}
	return fmt.Sprintf("%s %s %s %s.", pick(g, fillerWho), pick(g, fillerDoes), pick(g, fillerWhere), pick(g, fillerWhen))
}

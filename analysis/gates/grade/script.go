package grade

import (
	"fmt"

	"quantscope/analysis/gates/suite"
)

// eachShare is what each of several scripts must have of the letters.
const eachShare = 0.1

func (s *sheet) script() (finding, string) {
	share := 1.0
	f, pass := s.each(func(t *turn) (finding, string) {
		if f := s.length(t); f.fault != "" {
			return f, ""
		}
		f, got := inScript(t.text, t.want.Script, s.num("share"))
		share = min(share, got)
		s.figures["script_share"] = share
		if f.fault == "" {
			f = s.holds(t, t.want, false)
		}
		return f, fmt.Sprintf("%.0f %% %s in %.0f characters: %s", 100*got, t.want.Script, s.figures["runes"], quote(t.text))
	})
	if f.fault == "" {
		f = s.noLoop()
	}
	return f, pass
}

// inScript is the share of a text's letters that are of a script.
func inScript(text, name string, least float64) (finding, float64) {
	parts, err := suite.ParseScript(name)
	if err != nil {
		return found(Erred, "%v", err), 0
	}
	sum, letters := 0, 0
	for i := range parts {
		of, all := parts[i].Count(text)
		sum, letters = sum+of, all
		if len(parts) > 1 && float64(of) < eachShare*float64(all) {
			return found(WrongScript, "%d of %d letters are %s: %s", of, all, parts[i].Name, quote(text)), 0
		}
	}
	if letters == 0 {
		return found(WrongScript, "has no letters: %s", quote(text)), 0
	}
	share := min(float64(sum)/float64(letters), 1)
	if share < least || sum == 0 {
		return found(WrongScript, "%d of %d letters are %s: %s", sum, letters, name, quote(text)), share
	}
	return finding{}, share
}

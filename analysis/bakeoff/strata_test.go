package bakeoff

import (
	"strings"
	"testing"
)

func TestParseStrata(t *testing.T) {
	const text = "worst=372,random=400,layer=45=100,layer=46=all,projection=down=50,expert=17=all"
	specs, err := ParseStrata(" worst = 372, random=400,,layer=045=100,layer=46=all,projection=down=50,expert=17=all ")
	if err != nil || Label(specs) != text {
		t.Fatalf("%s, %v", Label(specs), err)
	}
	var names []string
	for _, s := range specs {
		names = append(names, s.Name())
	}
	if got := strings.Join(names, ", "); got != "worst, random, layer 45, layer 46, down, expert 17" {
		t.Error(got)
	}
}

func TestParseStrataRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                            "no stratum",
		" , ":                         "no stratum",
		"best=3":                      `stratum "best=3": not known (known: worst=K, random=K, layer=N=K`,
		"worst":                       "not of the form worst=K",
		"worst=3=4":                   "not of the form worst=K",
		"layer=4":                     "not of the form layer=WHICH=K",
		"layer=down=4":                `"down" is no number of a layer`,
		"expert=-1=4":                 `"-1" is no number of an expert`,
		"projection==4":               "which projection?",
		"random=0":                    `"0" is no number of tensors`,
		"random=-5":                   `"-5" is no number of tensors`,
		"random=many":                 `"many" is no number of tensors`,
		"worst=1,worst=2":             "worst is there already",
		"layer=4=1,layer=04=2":        "layer 4 is there already",
		"random=99999999999999999999": "is no number of tensors",
	} {
		if _, err := ParseStrata(text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	if _, err := ParseStrata(strings.Join(many(), ",")); err == nil || !strings.Contains(err.Error(), "at most 64") {
		t.Error(err)
	}
}

func many() (list []string) {
	for i := range 65 {
		list = append(list, "layer="+number(i)+"=1")
	}
	return list
}

func FuzzParseStrata(f *testing.F) {
	for _, s := range []string{"worst=372,random=400", "layer=45=100", "projection=down=all,expert=17=2", "=,==", "worst=all"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := ParseStrata(text)
		if err != nil {
			return
		}
		again, err := ParseStrata(Label(specs))
		if err != nil || Label(again) != Label(specs) {
			t.Errorf("%q is read as %q, and that not as itself: %v", text, Label(specs), err)
		}
	})
}

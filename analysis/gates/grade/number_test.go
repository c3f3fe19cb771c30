package grade

import (
	"testing"

	"quantscope/analysis/gates/suite"
)

// TestNumbers of texts that models write.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"Answer: 14":                         "14",
		"54+33=87. 87-14=73. Answer: 73.":    "73",
		"It is -5":                           "-5",
		"x = −5":                             "-5",
		"17-5":                               "5",
		"17 - 5 = 12":                        "12",
		"between 3 and 10-12":                "12",
		"1,234,567 in all":                   "1234567",
		"1 234 567":                          "1234567",
		"12,5":                               "5",
		"$2,000.50.":                         "2000.5",
		"3.140":                              "3.14",
		".5":                                 "0.5",
		"1e3":                                "1000",
		"2.5e-3 m":                           "0.0025",
		`so \boxed{42}, not 43`:              "42",
		`\boxed{1} and \boxed{2{,}500}`:      "2500",
		`\boxed{\frac{3}{4}}`:                "0.75",
		`\boxed{-7/2}`:                       "-3.5",
		`\boxed{x = \dfrac{1}{3}}`:           "3",
		`\boxed{\text{about } 9 \text{ cm}}`: "9",
		`\boxed{12`:                          "12",
		"**18** apples":                      "18",
		"١٢٣":                                "123",
		"答えは４２です":                            "42",
		"five":                               "",
		"":                                   "",
		"v2":                                 "2",
	} {
		v, ok := value(text)
		got := ""
		if ok {
			got = rat(v)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for text, fault := range map[string]Fault{"14": "", "14.0": "", "so 14 of 20": WrongAnswer, "15": WrongAnswer, "13": WrongAnswer, "none": WrongAnswer, `\boxed{14} of 20`: ""} {
		if v := Grade(probe("number", nil), asked(&suite.Want{Text: "14"}), answer(text), nil); v.Fault != fault {
			t.Errorf("%q: %+v, want %q", text, v, fault)
		}
	}
}

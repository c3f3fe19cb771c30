package suite

import (
	"fmt"
	"strconv"
	"strings"
)

var conversations = Generator{
	Name:  "turns",
	About: "A conversation of seven turns of different kinds: a fact to remember, arithmetic, a list, a translation, code, an explanation, and the fact again.",
	Args:  []Arg{{"long", Flag, false, "ask for long answers, so that all seven pass two thousand tokens", nil}},
	one:   oneConversation,
}

func oneConversation(g *draw) (Case, error) {
	long, _ := g.arg("long").(bool)
	more := func(short, much string) string {
		if long {
			return " " + much
		}
		return " " + short
	}
	who, where, color := pick(g, people), pick(g, places["Latin"]), pick(g, []string{"red", "green", "blue", "yellow", "black", "white"})
	number := g.between(100, 999)
	a, b, c := g.between(11, 79), g.between(11, 49), g.between(2, 10)
	subject := pick(g, []string{"bees", "tides", "glaciers", "bread", "paper", "glass", "volcanoes", "rice"})
	word := pick(g, []string{"house", "river", "bread", "winter"})
	french := map[string]string{"house": "maison", "river": "rivi", "bread": "pain", "winter": "hiver"}[word]
	f := g.name()
	least := 200
	if !long {
		least = 40
	}
	turns := []Turn{
		{fmt.Sprintf("My name is %s, I live in %s and my locker has the number %d. Greet me by name and say in one or two sentences what you can help with.", who, where, number), &Want{All: []string{who}}},
		{fmt.Sprintf("What is %d+%d-%d? Show the steps and end with the result.", a, b, c), &Want{Any: []string{strconv.Itoa(a + b - c)}}},
		{"List facts about " + subject + ", one a line, with numbers before them." + more("Give four.", "Give twelve, each of two full sentences."), &Want{All: []string{"1", "2", "3", "4"}, MinRunes: least}},
		{fmt.Sprintf("How do you say \"the %s is %s\" in French?", word, color), &Want{Any: []string{french}}},
		{fmt.Sprintf("Write a Go function named %s that returns the sum of a slice of ints.", f) + more("Only the code.", "Then explain each of its lines, and write a table-driven test for it."), &Want{All: []string{"func " + f, "range", "return"}, MinRunes: least}},
		{"Explain to a child how " + pick(g, []string{"rain comes to be", "a boat floats", "a clock works", "a seed becomes a tree"}) + "." + more("Three sentences.", "Take at least four paragraphs."), &Want{MinRunes: 2 * least}},
		{"What did I say: what is my name, where do I live, and what number has my locker?", &Want{All: []string{who, where, strconv.Itoa(number)}}},
	}
	return Case{Turns: turns}, nil
}

// asks are requests for text in a script, in that language.
var asks = map[string][]string{
	"Korean":       {"한국의 사계절에 대해 여러 문장으로 설명해 주세요.", "김치를 만드는 방법을 차례대로 자세히 설명해 주세요.", "어린아이에게 바다가 왜 짠지 설명해 주세요."},
	"Japanese":     {"日本の四季について、いくつかの文で説明してください。", "おいしいお茶の入れ方を順番にくわしく説明してください。", "なぜ海の水は塩辛いのか、子どもにわかるように説明してください。"},
	"Chinese":      {"请用几句话介绍中国的四季。", "请按步骤详细说明怎样泡一杯好茶。", "请向孩子解释海水为什么是咸的。"},
	"Tamil":        {"மழை எப்படி உருவாகிறது என்பதைப் பல வாக்கியங்களில் விளக்குங்கள்.", "தமிழ் மொழியின் வரலாற்றைப் பற்றிச் சில வாக்கியங்கள் எழுதுங்கள்."},
	"Arabic":       {"اشرح في عدة جمل كيف يتكوّن المطر.", "صف المدينة القديمة في القاهرة في عدة جمل."},
	"Cyrillic":     {"Опишите в нескольких предложениях четыре времени года в России.", "Объясните ребёнку, почему море солёное."},
	"Devanagari":   {"भारत के मौसमों का कई वाक्यों में वर्णन कीजिए।", "बच्चे को समझाइए कि समुद्र का पानी खारा क्यों होता है।"},
	"Latin":        {"Describe the four seasons of the year in several sentences.", "Explain to a child why the sea is salt."},
	"Emoji":        {"Write ten emoji that fit a birthday party, and nothing beside them.", "Tell the story of a day at the beach with emoji alone, at least ten."},
	"Hangul+Latin": {"Explain in English what these Korean words mean, and give an example sentence in Korean with each: 나무, 바다, 하늘.", "영어 단어 river, mountain, forest의 뜻을 한국어로 설명하고, 각각 영어 예문을 하나씩 써 주세요."},
}

func askScripts() []string { return sortedKeys(asks) }

// leastRunes by script: writing that packs more into a character needs fewer.
var leastRunes = map[string]int{"Korean": 80, "Japanese": 60, "Chinese": 40, "Emoji": 8}

var scripts = Generator{
	Name:  "scripts",
	About: "Requests for text in a script, asked in that language; the wanted script and the least length come with them.",
	Args:  []Arg{{"scripts", Words, nil, "that are asked for, in turn", askScripts()}, {"long", Flag, false, "ask for a long text", nil}},
	one: func(g *draw) (Case, error) {
		all := g.words("scripts", askScripts())
		s := all[g.i%len(all)]
		of := asks[s]
		ask, least := of[g.i/len(all)%len(of)], leastRunes[s]
		if least == 0 {
			least = 100
		}
		if long, _ := g.arg("long").(bool); long {
			ask, least = ask+" "+longer[s], 6*least
			if longer[s] == "" {
				return Case{}, fmt.Errorf("scripts: %s has no long form; those that have are %s", s, strings.Join(sortedKeys(longer), ", "))
			}
		}
		return Case{Turns: []Turn{{User: ask, Want: &Want{Script: s, MinRunes: least}}}}, nil
	},
}

var longer = map[string]string{
	"Korean":     "열 문단 이상으로 길게 써 주세요.",
	"Japanese":   "十段落以上の長い文章にしてください。",
	"Chinese":    "请写十段以上的长文。",
	"Tamil":      "பத்துப் பத்திகளுக்கு மேல் எழுதுங்கள்.",
	"Arabic":     "اكتب عشر فقرات على الأقل.",
	"Cyrillic":   "Напишите не меньше десяти абзацев.",
	"Devanagari": "कम से कम दस अनुच्छेद लिखिए।",
	"Latin":      "Write at least ten paragraphs.",
}

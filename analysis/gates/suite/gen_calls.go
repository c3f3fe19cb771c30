package suite

import (
	"encoding/json"
	"fmt"
	"strings"

	"quantscope/analysis/gates/chat"
)

// places by script.
var places = map[string][]string{
	"Latin":      strings.Fields("Seoul Paris Lima Oslo Cairo Delhi Kyoto Quito Rome Lagos Hanoi Perth Dakar Turin Basel Osaka"),
	"Korean":     strings.Fields("서울 부산 대구 인천 광주 대전 울산 수원 제주"),
	"Chinese":    strings.Fields("北京 上海 广州 深圳 成都 武汉 西安"),
	"Japanese":   strings.Fields("東京 大阪 京都 札幌 さいたま つくば"),
	"Cyrillic":   strings.Fields("Москва Казань Самара Тверь Омск"),
	"Devanagari": strings.Fields("दिल्ली मुंबई पुणे जयपुर"),
	"Tamil":      strings.Fields("சென்னை மதுரை கோவை"),
	"Arabic":     strings.Fields("القاهرة الرياض بغداد دمشق"),
	"Greek":      strings.Fields("Αθήνα Πάτρα Βόλος"),
	"Thai":       strings.Fields("กรุงเทพ เชียงใหม่"),
	"Hebrew":     strings.Fields("חיפה ירושלים"),
	"Georgian":   strings.Fields("თბილისი ბათუმი"),
}

func placeScripts() []string { return sortedKeys(places) }

func place(g *draw) string {
	if own := g.words("places", nil); own != nil {
		return pick(g, own)
	}
	return pick(g, places[pick(g, g.words("scripts", placeScripts()))])
}

var placesArg = Arg{"places", Words, nil, "in place of those of scripts", nil}

var kindsOfCalls = []string{"weather", "alarm", "message", "table", "flights"}

var toolCalls = Generator{
	Name:  "toolcalls",
	About: "Five tools, and a request that one of them serves; places, and so arguments, are in many scripts.",
	Args: []Arg{
		{"kinds", Words, nil, "of requests", kindsOfCalls},
		{"scripts", Words, nil, "that places are of", placeScripts()},
		placesArg,
		{"korean", Flag, false, "ask in Korean", nil},
	},
	one: oneCall,
}

func oneCall(g *draw) (Case, error) {
	kind := pick(g, g.words("kinds", kindsOfCalls))
	korean, _ := g.arg("korean").(bool)
	a, b, who := place(g), place(g), pick(g, people)
	hour, minute, guests := g.between(7, 20), g.between(1, 28), g.between(2, 28)
	say := func(english []string, inKorean string) string {
		if korean {
			return inKorean
		}
		return pick(g, english)
	}
	var ask string
	var call Call
	switch kind {
	case "weather":
		ask = say([]string{"What is the weather in " + a + "?", "Weather for " + a + ", please."}, a+" 날씨를 알려 줘.")
		call = Call{"get_weather", map[string]any{"city": a}}
	case "alarm":
		ask = say([]string{fmt.Sprintf("Set an alarm for %d:%02d.", hour, minute)}, fmt.Sprintf("%d시 %d분에 알람을 맞춰 줘.", hour, minute))
		call = Call{"set_alarm", map[string]any{"hour": float64(hour), "minute": float64(minute)}}
	case "message":
		text := "see you in " + a
		if korean {
			text = a + "에서 만나요"
		}
		ask = say([]string{fmt.Sprintf("Send %s the message: %s.", who, text), fmt.Sprintf("Tell %s: %s.", who, text)}, fmt.Sprintf("%s에게 이렇게 메시지를 보내 줘: %s", who, text))
		call = Call{"send_message", map[string]any{"to": who, "text": text}}
	case "table":
		ask = say([]string{fmt.Sprintf("Book a table in %s for %d people.", a, guests)}, fmt.Sprintf("%s에 %d명 자리를 예약해 줘.", a, guests))
		call = Call{"book_table", map[string]any{"city": a, "guests": float64(guests)}}
	case "flights":
		ask = say([]string{fmt.Sprintf("Find flights from %s to %s.", a, b)}, fmt.Sprintf("%s에서 %s까지 가는 항공편을 찾아 줘.", a, b))
		call = Call{"find_flights", map[string]any{"origin": a, "destination": b}}
	default:
		return Case{}, fmt.Errorf("kinds: unknown %q", kind)
	}
	return Case{Turns: []Turn{{User: ask, Want: &Want{Call: &call}}}, Tools: callTools}, nil
}

// callTools are the tools of every case.
var callTools = []chat.Tool{
	newTool("get_weather", "Tells the weather of a city.", "city", "string"),
	newTool("set_alarm", "Sets an alarm of today.", "hour", "integer", "minute", "integer"),
	newTool("send_message", "Sends a text message to a person, word for word as given, without a full stop of the sentence around it.", "to", "string", "text", "string"),
	newTool("book_table", "Books a table at a restaurant of a city.", "city", "string", "guests", "integer"),
	newTool("find_flights", "Finds flights between two cities.", "origin", "string", "destination", "string"),
}

// newTool makes a tool of names and types of its parameters, in turn.
func newTool(name, about string, parameters ...string) chat.Tool {
	properties, required := map[string]any{}, []string{}
	for i := 0; i+1 < len(parameters); i += 2 {
		properties[parameters[i]] = map[string]string{"type": parameters[i+1]}
		required = append(required, parameters[i])
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	if err != nil { // maps of text are always JSON
		raw = nil
	}
	return chat.Tool{Name: name, Description: about, Parameters: raw}
}

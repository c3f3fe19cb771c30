package openai

import "quantscope/analysis/gates/chat"

// maxCalls bounds how many calls an answer has.
const maxCalls = 1 << 12

// calls puts tool calls together from pieces: the first names the function, each
// brings some of the arguments, an index says to which they belong.
type calls struct {
	made  []chat.ToolCall
	index []int64
	told  int // so many of made were given out as whole
}

func (c *calls) begun() bool { return len(c.made) > 0 }

// take takes the calls of a piece and gives those that are whole by it: all before
// the one that is being written.
func (c *calls) take(n node) []chat.ToolCall {
	if n.kind != list {
		return nil
	}
	for _, p := range n.list {
		f := p.get("function")
		at := c.find(p, f)
		if at < 0 {
			continue
		}
		t := &c.made[at]
		if id := p.get("id").str(); id != "" {
			t.ID = id
		}
		t.Name = join(t.Name, f.get("name").str())
		t.Arguments = join(t.Arguments, arguments(f.get("arguments")))
	}
	return c.give(len(c.made) - 1)
}

// find is the place of a piece's call, which may be a new one. A piece without an
// index begins a call where it has a name, else it goes on with the last.
func (c *calls) find(p, f node) int {
	i := int64(-1)
	if n := p.get("index"); n.kind == number {
		i = n.integer()
		for at, have := range c.index {
			if have == i && i >= 0 {
				return at
			}
		}
	} else if f.get("name").str() == "" && len(c.made) > 0 {
		return len(c.made) - 1
	}
	if len(c.made) >= maxCalls {
		return -1
	}
	c.made, c.index = append(c.made, chat.ToolCall{}), append(c.index, i)
	return len(c.made) - 1
}

// old takes a call in the form that was before there were tools.
func (c *calls) old(f node) []chat.ToolCall {
	if len(c.made) == 0 {
		c.made, c.index = append(c.made, chat.ToolCall{}), append(c.index, -1)
	}
	t := &c.made[len(c.made)-1]
	t.Name = join(t.Name, f.get("name").str())
	t.Arguments = join(t.Arguments, arguments(f.get("arguments")))
	return nil
}

// end gives the calls that were not given out yet.
func (c *calls) end() []chat.ToolCall { return c.give(len(c.made)) }

func (c *calls) give(upTo int) []chat.ToolCall {
	if upTo <= c.told {
		return nil
	}
	out := append([]chat.ToolCall(nil), c.made[c.told:upTo]...)
	c.told = upTo
	return out
}

// arguments are a text; of servers that send them as an object, the object as text.
func arguments(n node) string {
	if n.kind == object || n.kind == list {
		return string(appendJSON(nil, n))
	}
	return n.str()
}

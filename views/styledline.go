package views

import "strings"

// styledLine is a line of a drawing by cells, each with its style.
type styledLine []string

// splitCells takes a line apart into cells that each stand for themselves.
func splitCells(line string) styledLine {
	var out styledLine
	style := ""
	for i := 0; i < len(line); {
		if line[i] == 0x1b {
			if n := sgrLen(line[i:]); n > 0 {
				style = line[i : i+n]
				if style == reset || style == "\x1b[m" {
					style = ""
				}
				i += n
				continue
			}
		}
		n, w := next(line[i:])
		cell := line[i : i+n]
		if style != "" {
			cell = style + cell + reset
		}
		for range max(w, 1) - 1 {
			out = append(out, "")
		}
		out = append(out, cell)
		i += n
	}
	return out
}

func (l *styledLine) put(x int, cell string) {
	for len(*l) <= x {
		*l = append(*l, " ")
	}
	if x >= 0 {
		(*l)[x] = cell
	}
}

// putBlank puts a cell where there is nothing yet.
func (l *styledLine) putBlank(x int, cell string) {
	if x >= 0 && (x >= len(*l) || blankCell((*l)[x])) {
		l.put(x, cell)
	}
}

// blankCell says whether a cell shows nothing.
func blankCell(cell string) bool {
	for i := 0; i < len(cell); {
		if n := sgrLen(cell[i:]); cell[i] == 0x1b && n > 0 {
			i += n
			continue
		}
		if cell[i] != ' ' {
			return false
		}
		i++
	}
	return true
}

func (l styledLine) String() string { return strings.Join(l, "") }

// axisColumn is the cell of the axis.
func axisColumn(cells []styledLine) int {
	for _, line := range cells {
		for x, cell := range line {
			if strings.ContainsAny(cell, "┤┼") {
				return x
			}
		}
	}
	return 0
}

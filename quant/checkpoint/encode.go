package checkpoint

import (
	"strconv"
	"unicode/utf8"
)

// appendEntry encodes one member of a header.
func appendEntry(dst []byte, t *Tensor) []byte {
	dst = appendText(dst, t.Name)
	dst = append(dst, `:{"dtype":"`...)
	dst = append(dst, t.DType.String()...)
	dst = append(dst, `","shape":[`...)
	for i, d := range t.Shape {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, d, 10)
	}
	dst = append(dst, `],"data_offsets":[`...)
	dst = strconv.AppendInt(dst, t.Offset, 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, t.Offset+t.Size, 10)
	return append(dst, "]}"...)
}

// appendText encodes a JSON string. Only what must be escaped is.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

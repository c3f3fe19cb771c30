package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxConfigBytes bounds config.json. The largest in use carry a list of every
// quantized layer and stay below 10 MB.
const maxConfigBytes = 64 << 20

// maxDepth bounds nesting.
const maxDepth = 64

// object is one JSON object. Numbers are json.Number.
type object = map[string]any

// parseObject reads one JSON object. A key that stands twice in an object is an
// error, since programs differ on which one counts.
func parseObject(data []byte) (object, error) {
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("%d bytes, more than %d", len(data), maxConfigBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := parseValue(dec, 0)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	obj, ok := v.(object)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return obj, nil
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		obj := object{}
		for dec.More() {
			tok, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, _ := tok.(string)
			if _, ok := obj[key]; ok {
				return nil, fmt.Errorf("key %q stands twice", key)
			}
			if obj[key], err = parseValue(dec, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return obj, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	return tok, nil
}

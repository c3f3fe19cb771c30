package sessions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// exact is what JSON cannot carry of a document: strings that are not UTF-8 and
// figures that are not finite, by where they stand (a JSON pointer, RFC 6901). In
// the document itself such a string has U+FFFD for what is broken, such a figure
// is 0. Keys of maps are names: what of one is not UTF-8 is not kept.
type exact struct {
	Raw       map[string][]byte `json:"raw,omitempty"` // base64 of the bytes
	NonFinite map[string]Figure `json:"nonfinite,omitempty"`
}

// marshalExact is the JSON of what v points to, and what it cannot carry. v is not
// changed.
func marshalExact(v any) ([]byte, exact, error) {
	doc, err := json.Marshal(v)
	var non *json.UnsupportedValueError
	switch {
	case err == nil && !bytes.Contains(doc, []byte(`\ufffd`)): // which encoding/json writes for a broken byte, and for nothing else
		return doc, exact{}, nil
	case err != nil && !errors.As(err, &non):
		return nil, exact{}, err
	}
	e := exact{Raw: map[string][]byte{}, NonFinite: map[string]Figure{}}
	plain := e.plain(reflect.ValueOf(v), "")
	doc, err = json.Marshal(plain.Interface())
	return doc, e, err
}

var (
	marshaler = reflect.TypeFor[json.Marshaler]()
	rawJSON   = reflect.TypeFor[json.RawMessage]()
)

// plain copies a value and notes what of it JSON cannot carry.
func (e *exact) plain(v reflect.Value, at string) reflect.Value {
	if !v.IsValid() {
		return v
	}
	out := reflect.New(v.Type()).Elem()
	switch {
	case v.Type() == rawJSON, v.Type().Implements(marshaler) && v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface:
		return v
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v
		}
		inner := e.plain(v.Elem(), at)
		if v.Kind() == reflect.Pointer {
			p := reflect.New(inner.Type())
			p.Elem().Set(inner)
			return p
		}
		out.Set(inner)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if inlined(f) {
				out.Field(i).Set(e.plain(v.Field(i), at))
			} else if name, ok := jsonName(f); ok {
				out.Field(i).Set(e.plain(v.Field(i), at+"/"+pointerName(name)))
			}
		}
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return v
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(e.plain(v.Index(i), at+"/"+strconv.Itoa(i)))
		}
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), e.plain(it.Value(), at+"/"+pointerName(fmt.Sprint(it.Key()))))
		}
	case reflect.String:
		s := v.String()
		if !utf8.ValidString(s) {
			e.Raw[at] = []byte(s)
			s = strings.ToValidUTF8(s, "\uFFFD")
		}
		out.SetString(s)
	case reflect.Float64, reflect.Float32:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			e.NonFinite[at] = Figure(f)
		} else {
			out.SetFloat(f)
		}
	default:
		return v
	}
	return out
}

// inlined says whether encoding/json writes the fields of a field as those of the
// struct that it is in.
func inlined(f reflect.StructField) bool {
	return f.Anonymous && f.IsExported() && f.Type.Kind() == reflect.Struct && f.Tag.Get("json") == ""
}

// jsonName is what encoding/json calls a field.
func jsonName(f reflect.StructField) (string, bool) {
	tag := f.Tag.Get("json")
	name, _, _ := strings.Cut(tag, ",")
	if !f.IsExported() || tag == "-" {
		return "", false
	}
	if name == "" {
		name = f.Name
	}
	return name, true
}

// pointerName escapes a name for a JSON pointer.
func pointerName(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// restore puts back what the JSON of v could not carry. v points to what the JSON
// was read into.
func (e *exact) restore(v any) error {
	for at, raw := range e.Raw {
		if err := put(reflect.ValueOf(v), at, string(raw)); err != nil {
			return err
		}
	}
	for at, f := range e.NonFinite {
		if err := put(reflect.ValueOf(v), at, float64(f)); err != nil {
			return err
		}
	}
	return nil
}

// put sets what a pointer leads to.
func put(v reflect.Value, at string, to any) error {
	names := strings.Split(at, "/")
	if len(names) < 2 || names[0] != "" {
		return fmt.Errorf("%q is no JSON pointer", at)
	}
	if err := putAt(v, names[1:], reflect.ValueOf(to)); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

var errNoPlace = errors.New("leads to nothing that could have this value")

func putAt(v reflect.Value, names []string, to reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return errNoPlace
		}
		return putAt(v.Elem(), names, to)
	case reflect.Interface:
		if v.IsNil() {
			return errNoPlace
		}
		return putCopy(v.Elem(), names, to, v.Set)
	}
	if len(names) == 0 {
		if !v.CanSet() || v.Kind() != to.Kind() {
			return errNoPlace
		}
		v.Set(to.Convert(v.Type()))
		return nil
	}
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(names[0])
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if inlined(f) {
				if err := putAt(v.Field(i), names, to); !errors.Is(err, errNoPlace) {
					return err
				}
			} else if n, ok := jsonName(f); ok && n == name {
				return putAt(v.Field(i), names[1:], to)
			}
		}
	case reflect.Slice:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < v.Len() {
			return putAt(v.Index(i), names[1:], to)
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return errNoPlace
		}
		key := reflect.ValueOf(name).Convert(v.Type().Key())
		if old := v.MapIndex(key); old.IsValid() {
			return putCopy(old, names[1:], to, func(x reflect.Value) { v.SetMapIndex(key, x) })
		}
	}
	return errNoPlace
}

// putCopy sets in a copy of what cannot be set in place, and hands that on.
func putCopy(old reflect.Value, names []string, to reflect.Value, set func(reflect.Value)) error {
	c := reflect.New(old.Type()).Elem()
	c.Set(old)
	if err := putAt(c, names, to); err != nil {
		return err
	}
	set(c)
	return nil
}

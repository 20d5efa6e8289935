package message

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// encode returns v, whose name is for an error, as JSON. It writes & and < as they are:
// json.Marshal makes six bytes of each, with which a payload could exceed MaxPayload.
func encode(name string, v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ReadJSON decodes one JSON value with nothing behind it, and without fields that into has
// not. The error is a *FieldError, as of ExplainJSON.
func ReadJSON(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := ExplainJSON(d.Decode(into))
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) { // More would take ] and } for an end
			return &FieldError{"body", "has something behind its JSON value"}
		}
	}
	if _, ok := errors.AsType[*FieldError](err); err != nil && !ok {
		return &FieldError{"body", err.Error()}
	}
	return err
}

// ReadBody is ReadJSON of a request's body, which may be empty: into stays as it is then.
func ReadBody(body io.Reader, into any) error {
	b, err := io.ReadAll(body)
	if err != nil {
		return &FieldError{"body", err.Error()}
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	return ReadJSON(bytes.NewReader(b), into)
}

// ExplainJSON returns an error of encoding/json as a *FieldError in words for readers who
// know no Go, and any other error as it is. The field is "body" where it is the whole.
func ExplainJSON(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		got, _, _ := strings.Cut(wrong.Value, " ") // a number that does not fit comes with its digits
		want := kindOf(wrong.Type)
		problem := "must be " + want
		if got != "number" || !strings.Contains(want, got) {
			problem += ", not " + map[string]string{"string": "a string", "number": "a number", "bool": "true or false", "array": "a list", "object": "an object"}[got]
		}
		field := strings.TrimPrefix(wrong.Field, "Own.") // the embedded struct's name comes with it
		return &FieldError{cmp.Or(field, "body"), problem}
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &FieldError{"body", "is no JSON: " + err.Error()}
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &FieldError{"body", "is no JSON: it ends too early"}
	case err == nil:
		return nil
	}
	if quoted, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
		return &FieldError{strings.Trim(quoted, `"`), "is unknown"}
	}
	return err
}

// kindOf returns the JSON kind of a Go type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Pointer:
		return kindOf(t.Elem())
	default: // structs and maps
		return "an object"
	}
}

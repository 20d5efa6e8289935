package fakeapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// Request is a request that API.Do judges. It comes from any HTTP library. Do
// keeps none of its bytes.
type Request struct {
	Method        string
	Path          []byte // with the leading slash, without the query
	Query         []byte
	Authorization []byte
	ContentType   []byte
	Body          []byte
}

// Decode reads the body, one JSON value without unknown fields, into v.
func (r *Request) Decode(v any) error { return decodeStrict(r.Body, v) }

// token returns the access token of a request: from the header, the query, or
// the body, in this order.
func (r *Request) token(body *sendBody) string {
	for _, scheme := range []string{"Bearer ", "OAuth "} {
		if len(r.Authorization) > len(scheme) && bytes.EqualFold(r.Authorization[:len(scheme)], []byte(scheme)) {
			return string(bytes.TrimSpace(r.Authorization[len(scheme):]))
		}
	}
	if t := r.param("access_token"); t != "" {
		return t
	}
	return body.Token
}

// proof returns the appsecret_proof of a request: from the query, or the body.
func (r *Request) proof(body *sendBody) string {
	if p := r.param("appsecret_proof"); p != "" {
		return p
	}
	return body.Proof
}

// param returns a parameter of the query; empty: there is none.
func (r *Request) param(name string) string {
	if len(r.Query) == 0 {
		return ""
	}
	q, err := url.ParseQuery(string(r.Query))
	if err != nil {
		return ""
	}
	return q.Get(name)
}

// Response is the answer and how it is to be delivered. A Response may be used
// again: Do overwrites it and reuses its buffers.
type Response struct {
	Status      int
	ContentType string
	Body        []byte
	Usage       []byte // x-business-use-case-usage; empty: no such header
	AppUsage    []byte // x-app-usage; empty: no such header
	RetryAfter  []byte // retry-after; empty: no such header

	Delay     time.Duration // from the request's arrival to the answer's header
	BodyDelay time.Duration // from the header to the body
	Cut       bool          // after Delay the connection is lost instead
}

const contentJSON = "application/json; charset=UTF-8"

func (r *Response) reset() {
	*r = Response{
		Status: http.StatusOK, ContentType: contentJSON, Body: r.Body[:0],
		Usage: r.Usage[:0], AppUsage: r.AppUsage[:0], RetryAfter: r.RetryAfter[:0],
	}
}

// setHints calls set with each hint that the answer has: the headers about the
// limits.
func (r *Response) setHints(set func(name string, value []byte)) {
	for _, h := range [...]struct {
		name  string
		value []byte
	}{{"x-business-use-case-usage", r.Usage}, {"x-app-usage", r.AppUsage}, {"retry-after", r.RetryAfter}} {
		if len(h.value) > 0 {
			set(h.name, h.value)
		}
	}
}

// WriteJSON makes v the answer, as JSON, with the status that is set.
func (r *Response) WriteJSON(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		r.WriteError(http.StatusInternalServerError, err)
		return
	}
	r.Body = append(append(r.Body[:0], b...), '\n')
}

// WriteError makes the answer an error: {"error":"…"}.
func (r *Response) WriteError(status int, err error) {
	r.Status = status
	b, _ := json.Marshal(map[string]string{"error": err.Error()}) // a map of strings always has a JSON form
	r.Body = append(append(r.Body[:0], b...), '\n')
}

// decodeStrict decodes one JSON value with no unknown field and nothing after
// it.
func decodeStrict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		problem := strings.TrimPrefix(err.Error(), "json: ")
		field := strings.TrimPrefix(wrongField(b, reflect.TypeOf(v)), ".")
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its own words name types of Go
			got, _, _ := strings.Cut(wrong.Value, " ")
			return fmt.Errorf("%s has the wrong type, %s", cmp.Or(field, wrong.Field, "the body"), got)
		}
		if field != "" && !strings.HasPrefix(problem, "unknown field") {
			problem = field + ": " + problem
		}
		return errors.New(problem)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON value")
	}
	return nil
}

// wrongField returns where the first value in b is that a t cannot take, such as
// .events[0].due. It is empty for b itself, and for none. encoding/json names no field
// where a type of its own decoding is at fault.
func wrongField(b []byte, t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	type part struct {
		name string
		raw  json.RawMessage
		t    reflect.Type
	}
	var parts []part
	var fields map[string]json.RawMessage
	var items []json.RawMessage
	_, _ = json.Unmarshal(b, &fields), json.Unmarshal(b, &items) // it is one of both, or neither
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			parts = append(parts, part{"." + name, fields[name], f.Type})
		}
	case reflect.Map:
		for name, raw := range fields {
			parts = append(parts, part{"." + name, raw, t.Elem()})
		}
	case reflect.Slice:
		for i, raw := range items {
			parts = append(parts, part{fmt.Sprintf("[%d]", i), raw, t.Elem()})
		}
	default: // it has no parts
	}
	for _, p := range parts {
		if p.raw != nil && json.Unmarshal(p.raw, reflect.New(p.t).Interface()) != nil {
			return p.name + wrongField(p.raw, p.t)
		}
	}
	return ""
}

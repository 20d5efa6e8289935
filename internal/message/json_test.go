package message

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestExplainJSON: whatever encoding/json finds is said without a word of Go.
func TestExplainJSON(t *testing.T) {
	t.Parallel()
	type body struct {
		Name   string            `json:"name"`
		N      int64             `json:"n"`
		Rate   *float64          `json:"rate"`
		On     bool              `json:"on"`
		List   []string          `json:"list"`
		Limits Limits            `json:"limits"`
		Names  map[string]string `json:"names"`
		Own
	}
	for _, row := range []struct{ body, want string }{
		{`{"name":7}`, "name must be a string, not a number"},
		{`{"name":{}}`, "name must be a string, not an object"},
		{`{"n":"7"}`, "n must be a whole number, not a string"},
		{`{"n":1.5}`, "n must be a whole number"},
		{`{"n":99999999999999999999}`, "n must be a whole number"},
		{`{"rate":true}`, "rate must be a number, not true or false"},
		{`{"rate":1e999}`, "rate must be a number"},
		{`{"on":1}`, "on must be true or false, not a number"},
		{`{"list":"a"}`, "list must be a list, not a string"},
		{`{"list":[1]}`, "list must be a string, not a number"},
		{`{"limits":{"text":"80"}}`, "limits.text must be a number, not a string"},
		{`{"limits":[]}`, "limits must be an object, not a list"},
		{`{"names":3}`, "names must be an object, not a number"},
		{`{"tag":3}`, "tag must be a string, not a number"},
		{`[]`, "body must be an object, not a list"},
		{`{"nam":""}`, "nam is unknown"},
		{`{"name":x}`, "body is no JSON: invalid character 'x' looking for beginning of value"},
		{`{"name":`, "body is no JSON: it ends too early"},
		{``, "body is no JSON: it ends too early"},
	} {
		d := json.NewDecoder(strings.NewReader(row.body))
		d.DisallowUnknownFields()
		err := ExplainJSON(d.Decode(new(body)))
		if _, ok := errors.AsType[*FieldError](err); !ok || err.Error() != row.want {
			t.Errorf("ExplainJSON(of %s) = %v, want %s", row.body, err, row.want)
		}
	}
	_, outbound := DecodeOutbound([]byte(`{"to":7}`))
	_, event := DecodeEvent([]byte(`{"user":7}`))
	for want, err := range map[string]error{
		"decode outbound: to must be a string, not a number": outbound,
		"decode event: user must be a string, not a number":  event,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	other := errors.New("the reader is gone")
	if got := ExplainJSON(other); !errors.Is(got, other) {
		t.Errorf("ExplainJSON(%v) = %v, want the same", other, got)
	}
	if got := ExplainJSON(nil); got != nil {
		t.Errorf("ExplainJSON(nil) = %v, want nil", got)
	}
}

// TestReadBody: a body may be empty, and has one JSON value otherwise.
func TestReadBody(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ body, name, want string }{
		{"", "before", ""},
		{" \n", "before", ""},
		{`{}`, "before", ""},
		{`{"name":"n"}`, "n", ""},
		{`{"name":"n"} {}`, "n", "body has something behind its JSON value"},
		{`{"nam":"n"}`, "before", "nam is unknown"},
	} {
		into := struct{ Name string }{"before"}
		problem := ""
		if err := ReadBody(strings.NewReader(row.body), &into); err != nil {
			problem = err.Error()
		}
		if into.Name != row.name || problem != row.want {
			t.Errorf("ReadBody(%q) = %q, %q, want %q, %q", row.body, into.Name, problem, row.name, row.want)
		}
	}
}

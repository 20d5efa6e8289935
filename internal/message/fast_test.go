package message

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// usual is a body as core makes it.
const usual = `{"id":"1/m_2/3","page":"1","to":"3","class":"text","text":"Grüße, 你好 👍","time":1700000000123,"attempts":2,"first_code":"613/1"}`

// FuzzFastOutbound: what is decoded fast is what encoding/json decodes.
func FuzzFastOutbound(f *testing.F) {
	for _, s := range []string{
		usual, "", "{", "{}", `{"id"}`, `{"id":`, `{"id":"a"`, `{"id":"a",}`, `{"id":"a"}}`, `{"id":"a"} `, `{"id":"a","id":"b"}`, `["id"]`,
		`{"ID":"a"}`, `{"id":null}`, `{"id":1}`, `{"id":"\u0061"}`, "{\"id\":\"\xff\"}", "{\"id\":\"\n\"}", "{\"id\":\"\u007f\u2028\"}",
		`{"time":007}`, `{"time":0}`, `{"time":-1}`, `{"time":1.5}`, `{"time":1e3}`, `{"time":9223372036854775808}`, `{"time":}`,
		`{"attempts":9223372036854775807}`, `{"attachment":{"type":"image","url":"x"}}`, `{"attachment":null,"text":"x"}`, `{"other":"x"}`,
		`{"joins":true,"answer":false}`, `{"answer":true,"answer":false}`, `{"answer":tru}`, `{"answer":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := fastOutbound(b)
		if !ok {
			return
		}
		var want Outbound
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatalf("fastOutbound(%q) = %+v, but encoding/json says: %v", b, got, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fastOutbound(%q) differs from encoding/json (-want +got):\n%s", b, diff)
		}
	})
}

// TestFastOutboundTakesTheUsual: the messages that core makes are decoded fast,
// but for those with attachments or escapes.
func TestFastOutboundTakesTheUsual(t *testing.T) {
	t.Parallel()
	o := Outbound{ID: "1/m_2/3", Page: "1", To: "3", Class: ClassText, Text: "Grüße, 你好 👍", Time: 1700000000123}
	for _, tt := range []struct {
		name   string
		change func(*Outbound)
		want   bool
	}{
		{"text", func(*Outbound) {}, true},
		{"tried before", func(o *Outbound) { o.Attempts, o.FirstCode = 2, "613/1" }, true},
		{"answer", func(o *Outbound) { o.Answer = true }, true},
		{"a line break", func(o *Outbound) { o.Text = "a\nb" }, false},
		{"attachment", func(o *Outbound) { o.Text, o.Attachment = "", &Attachment{Type: "image", URL: "x"} }, false},
	} {
		in := o
		tt.change(&in)
		body, err := in.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := fastOutbound(body); ok != tt.want {
			t.Errorf("%s: fastOutbound takes it: %t, want %t", tt.name, ok, tt.want)
		}
		if got, err := DecodeOutbound(body); err != nil || !cmp.Equal(in, got) {
			t.Errorf("%s: DecodeOutbound = %+v, %v, want %+v", tt.name, got, err, in)
		}
	}
}

func BenchmarkDecodeOutbound(b *testing.B) {
	for name, body := range map[string]string{"fast": usual, "encoding json": strings.Replace(usual, "Gr", `\u0047r`, 1)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeOutbound([]byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"chatclub/fakeapi/wire"
)

func ExampleAppend() {
	fmt.Printf("%s\n", wire.Append(nil, `Grüße / 100 % <b> a@b "\ 🎉`))
	// Output: "Gr\u00fc\u00dfe \/ 100 \u0025 \u003Cb> a\u0040b \"\\ \ud83c\udf89"
}

func FuzzAppend(f *testing.F) {
	for _, s := range []string{
		"Grüße aus Köln", "100 % sure: 3 < 4 & 5 > 2", "me@example.org https://example.org/a?b=c", "日本語", "👩‍👩‍👧",
		"\"back\\slash\"\nand a second line", "", "\x00\x7f\xff", "\u2028", "\U0010ffff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := wire.Append(nil, s)
		for _, c := range b {
			if c < ' ' || c >= utf8.RuneSelf {
				t.Fatalf("Append(%q) = %s, want printable ASCII", s, b)
			}
		}
		if strings.ContainsAny(string(b), "<%@") {
			t.Fatalf("Append(%q) = %s, want < %% @ escaped", s, b)
		}
		var got string
		if err := json.Unmarshal(b, &got); err != nil || got != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("Append(%q) reads as %q (%v), want the same", s, got, err)
		}
	})
}

// TestIDs: an id depends on seed and number alone, and has the platform's form.
func TestIDs(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for n := range uint64(1000) {
		id := string(wire.AppendMID(nil, 7, n))
		if len(id) != 45 || !strings.HasPrefix(id, "m_") || seen[id] {
			t.Fatalf("AppendMID(7, %d) = %s, want a new id of m_ and 43 characters", n, id)
		}
		if again := string(wire.AppendMID(nil, 7, n)); again != id {
			t.Fatalf("AppendMID(7, %d) = %s, then %s", n, id, again)
		}
		seen[id] = true
	}
	if a, b := wire.AppendMID(nil, 7, 1), wire.AppendMID(nil, 8, 1); string(a) == string(b) {
		t.Errorf("AppendMID with seeds 7 and 8 = %s twice, want two ids", a)
	}
	if got := wire.AppendTrace(nil, 1); len(got) != 11 {
		t.Errorf("AppendTrace(1) = %s, want 11 characters", got)
	}
}

package message

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestEncodeAll: the same bytes as Encode, whatever the messages are.
func TestEncodeAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a", "<&>", "\"\\", "\xff", "é", "1/m/2"}))
		picture := &Attachment{Type: "image", URL: "https://h/?a&b"}
		few := rapid.Custom(func(t *rapid.T) Outbound {
			o := Outbound{ID: text.Draw(t, "id"), Page: text.Draw(t, "page"), To: text.Draw(t, "to"), Class: ClassText, Text: "hi"}
			switch rapid.IntRange(0, 8).Draw(t, "kind") {
			case 0:
				o.Text = text.Draw(t, "text")
			case 1:
				o.Text, o.Attachment = "", picture
			case 2:
				o.Replies = []QuickReply{{"t", "p"}}
			case 3:
				o.Time, o.Attempts, o.FirstCode = 1, 2, "3"
			case 4:
				o.Broadcast, o.Deadline = "b", 7
			case 5:
				o.Class = ClassMedia
			}
			return o
		})
		list := rapid.SliceOf(few).Draw(t, "list")
		got, err := EncodeAll(list)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range list {
			want, err := o.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got[i])); diff != "" {
				t.Fatalf("body %d: -want +got\n%s", i, diff)
			}
		}
	})
}

func BenchmarkEncodeAll(b *testing.B) {
	list := make([]Outbound, 99)
	for i := range list {
		list[i] = Outbound{ID: "100000000000001/m_0123456789012345678901234567890123456789/7205759403792701", Page: "100000000000001", To: "7205759403792701", Class: ClassText, Text: "Guest 17: Hello everybody", Time: 1}
	}
	for b.Loop() {
		if _, err := EncodeAll(list); err != nil {
			b.Fatal(err)
		}
	}
}

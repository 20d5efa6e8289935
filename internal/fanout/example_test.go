package fanout_test

import (
	"fmt"

	"chatclub/internal/fanout"
	"chatclub/internal/message"
)

// A text with a picture makes two messages for each of the other members. Their
// ids are computed, so a repeated event makes the same messages.
func ExampleSay() {
	ev := message.Event{
		Kind: message.KindMessage, Page: "page", ID: "m1", User: "ana", Text: "Look!",
		Attachments: []message.Attachment{{Type: "image", URL: "https://cdn.example/cat.png"}},
	}
	said, refused := fanout.Say(ev, "Ana", ev.Text, fanout.MostOf(message.Limits{Text: 300, Media: 10}, 2))
	fmt.Printf("refused: %q\n", refused)
	for _, m := range said.Copies(ev, []string{"bo", "cy"}) {
		if m.Attachment != nil {
			fmt.Println(m.ID, m.Attachment.URL)
		} else {
			fmt.Println(m.ID, m.Text)
		}
	}
	// Output:
	// refused: ""
	// page/m1/bo Ana: Look!
	// page/m1/bo/1 https://cdn.example/cat.png
	// page/m1/cy Ana: Look!
	// page/m1/cy/1 https://cdn.example/cat.png
}

package fakeapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"chatclub/fakeapi"
)

// noon is a moment at which the examples' platforms stand still, so that their
// limits do not depend on how fast the machine is.
func noon() time.Time { return time.Date(2030, time.January, 1, 12, 0, 0, 0, time.UTC) }

// send sends a text from page 1 and prints the answer.
func send(client *http.Client, base, to, id string) {
	body := fmt.Sprintf(`{"recipient":{"id":%q},"messaging_type":"UPDATE","message":{"text":"hi","metadata":%q}}`, to, id)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/v23.0/1/messages", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer token-1")
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	// Message ids depend on the seed and the call's number alone; they are
	// shortened here.
	short, _, _ := strings.Cut(string(answer), `,"type"`)
	short, _, _ = strings.Cut(short, `"m_`)
	fmt.Println(resp.StatusCode, short)
}

// atOnce returns the settings of a platform that answers without latency.
func atOnce() *fakeapi.Settings {
	settings := fakeapi.DefaultSettings()
	settings.Latency = fakeapi.Latency{}
	return &settings
}

// A platform that takes two texts a second from each page refuses the third
// with 613, and its ledger knows.
func Example() {
	settings := atOnce()
	settings.Text.PerSecond = 2
	api, err := fakeapi.New(fakeapi.Config{Settings: settings, Now: noon})
	if err != nil {
		panic(err)
	}

	// Start it behind a socket. Without one, an http.Client with the transport
	// api.Transport() reaches it too.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- api.Serve(ctx, ln) }()

	// The ledger is told which messages must arrive: an event with the id m_1 on
	// page 1 goes to three users.
	api.Announce("1", "m_1", []string{"42", "43", "44"}, 0)

	client := &http.Client{Transport: &http.Transport{}}
	base := "http://" + ln.Addr().String()
	for _, to := range []string{"42", "43", "44"} {
		send(client, base, to, "1/m_1/"+to)
	}

	counts := api.Ledger().Totals()
	fmt.Println("expected", counts.Expected, "accepted", counts.Accepted, "refused", counts.Refused, "lost", counts.Lost)

	client.CloseIdleConnections()
	stop()
	if err := <-stopped; err != nil {
		panic(err)
	}
	// Output:
	// 200 {"recipient_id":"42","message_id":
	// 200 {"recipient_id":"43","message_id":
	// 400 {"error":{"message":"(#613) Calls to this api have exceeded the rate limit."
	// expected 3 accepted 2 refused 1 lost 1
}

// A recipient named error-CODE gets that answer, and Patch changes how the
// platform behaves while it runs.
func ExampleAPI_Patch() {
	api, err := fakeapi.New(fakeapi.Config{Settings: atOnce(), Now: noon})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: api.Transport()}
	send(client, "http://graph.example", "error-551", "1/m_1/error-551")

	if err := api.Patch([]byte(`{"inject":[{"code":"190","count":1}]}`)); err != nil {
		panic(err)
	}
	send(client, "http://graph.example", "42", "1/m_1/42")
	send(client, "http://graph.example", "42", "1/m_1/42")
	fmt.Println(api.Answers())
	// Output:
	// 400 {"error":{"message":"(#551) This person isn't available right now."
	// 400 {"error":{"message":"Invalid OAuth access token - Cannot parse access token"
	// 200 {"recipient_id":"42","message_id":
	// map[190:1 551:1]
}

// The ledger counts the errors of a system under test. This one sends the copy
// for user 42 twice and that for user 43 to the wrong user, and forgets user 44.
func ExampleAPI_Announce() {
	api, err := fakeapi.New(fakeapi.Config{Settings: atOnce(), Now: noon})
	if err != nil {
		panic(err)
	}
	event := api.Announce("1", "m_1", []string{"42", "43", "44"}, 0)
	event.Answered() // the system has taken the event

	client := &http.Client{Transport: api.Transport()}
	send(client, "http://graph.example", "42", "1/m_1/42")
	send(client, "http://graph.example", "42", "1/m_1/42")
	send(client, "http://graph.example", "42", "1/m_1/43") // unexpected here, and still awaited for user 43

	counts := api.Ledger().Totals()
	fmt.Println("lost", counts.Lost, "duplicated", counts.Duplicated, "unexpected", counts.Unexpected)
	// Output:
	// 200 {"recipient_id":"42","message_id":
	// 200 {"recipient_id":"42","message_id":
	// 200 {"recipient_id":"42","message_id":
	// lost 2 duplicated 1 unexpected 1
}

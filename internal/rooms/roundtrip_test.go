package rooms

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/rooms/roomstest"
)

// countingConn counts round trips: reads after a write.
type countingConn struct {
	net.Conn
	trips *atomic.Int64
	wrote atomic.Bool
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.wrote.Swap(false) {
		c.trips.Add(1)
	}
	return n, err
}

// TestRoundTrips checks the costs of an event on PostgreSQL, with statements
// prepared.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	var trips atomic.Int64
	s := open(t, Config{DatabaseURL: roomstest.DSN(t), MaxConns: 1, dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &countingConn{Conn: conn, trips: &trips}, err
	}})
	for i := range MaxCapacity {
		says(t, s, strconv.Itoa(i))
	}
	n := 0
	for _, tt := range []struct {
		name string
		kind command.Kind
		arg  string
		want int64
	}{
		{"message to a room of 100", command.None, "", 3},
		{"help", command.Help, "", 3},
		{"who", command.Who, "", 4},
		{"block", command.Block, "Guest 7", 4},
		{"block by number", command.Block, "", 4},
		{"report", command.Report, "Guest 7", 4},
		{"rename", command.Name, "Ana", 5},
		{"leave", command.Leave, "", 4},
		{"coming back to a room of 100", command.Start, "", 6},
		{"join", command.Join, "2", 5},
	} {
		var got int64
		for range 2 { // the first prepares the statements
			n++
			ev := Event{User: "5", ID: "trip" + strconv.Itoa(n), Command: wish(tt.kind, tt.arg)}
			switch tt.name {
			case "join":
				ev.Command.Room = "room" + strconv.Itoa(n)
			case "block by number":
				ev.Command.Number = 7
			case "rename":
				ev.Command.Name += strconv.Itoa(n)
			case "leave":
				says(t, s, ev.User)
			case "coming back to a room of 100":
				does(t, s, ev.User, command.Leave, "")
			}
			begin := trips.Load()
			res := receive(t, s, ev)
			if err := s.Done(t.Context(), "p", ev.ID); err != nil {
				t.Fatal(err)
			}
			got = trips.Load() - begin
			if tt.kind == command.None && len(res.Relay) != MaxCapacity-1 {
				t.Fatalf("copies = %d, want %d", len(res.Relay), MaxCapacity-1)
			}
		}
		if got != tt.want {
			t.Errorf("round trips of %s = %d, want %d", tt.name, got, tt.want)
		}
	}
	begin := trips.Load()
	receive(t, s, Event{User: "5", ID: "trip1"})
	if got := trips.Load() - begin; got > 2 { // and its rollback
		t.Errorf("round trips of a repeated event = %d, want at most 2", got)
	}
}

// TestBroadcastRoundTrips checks that each operation of a holder is one round trip. A claim
// also asks what time it is there.
func TestBroadcastRoundTrips(t *testing.T) {
	t.Parallel()
	var trips atomic.Int64
	s := open(t, Config{DatabaseURL: roomstest.DSN(t), MaxConns: 1, Now: func() time.Time { return noon }, dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &countingConn{Conn: conn, trips: &trips}, err
	}})
	says(t, s, "a")
	for i := range 50 {
		add(t, s, news(strconv.Itoa(i)))
	}
	b := news("7")
	ahead := b
	ahead.Cursor = "a"
	for _, tt := range []struct {
		name string
		do   func() error
		want int64
	}{
		{"claim", func() error { _, err := s.Broadcasts().Claim(t.Context(), "h", lease); return err }, 2},
		{"next", func() error { _, err := s.Broadcasts().NextRecipients(t.Context(), "h", b, 10); return err }, 1},
		{"advance", func() error { _, err := s.Broadcasts().Advance(t.Context(), "h", Progress{ahead, ""}); return err }, 1},
	} {
		var got int64
		for range 2 { // the first prepares the statements
			begin := trips.Load()
			if err := tt.do(); err != nil {
				t.Fatal(err)
			}
			got = trips.Load() - begin
		}
		if got != tt.want {
			t.Errorf("round trips of %s = %d, want %d", tt.name, got, tt.want)
		}
	}
}

package rooms

import (
	"fmt"
	"strconv"
	"testing"

	"chatclub/internal/command"
)

// BenchmarkReceive measures an event of a member of a full room, with its Done.
func BenchmarkReceive(b *testing.B) {
	for _, db := range databases() {
		b.Run(db.name, func(b *testing.B) {
			s := open(b, Config{DatabaseURL: db.url(b)})
			for i := range MaxCapacity {
				says(b, s, fmt.Sprintf("72057594037927%03d", i))
			}
			i := 0
			for b.Loop() {
				id := "m_" + strconv.Itoa(i)
				res := receive(b, s, Event{User: "72057594037927042", ID: id, Command: command.Command{Text: "See you there at eight, then"}})
				if len(res.Relay) != MaxCapacity-1 {
					b.Fatalf("Relay = %d, want %d", len(res.Relay), MaxCapacity-1)
				}
				if err := s.Done(b.Context(), "p", id); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

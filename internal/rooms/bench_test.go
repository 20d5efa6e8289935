package rooms

import (
	"fmt"
	"strconv"
	"testing"
)

// BenchmarkReceive is an event of a member of a full room, with its Done.
func BenchmarkReceive(b *testing.B) {
	for _, db := range databases() {
		b.Run(db.name, func(b *testing.B) {
			s := open(b, Config{DatabaseURL: db.url(b)})
			for i := range MaxCapacity {
				receive(b, s, "p", fmt.Sprintf("72057594037927%03d", i), "join-"+strconv.Itoa(i))
			}
			i := 0
			for b.Loop() {
				id := "m_" + strconv.Itoa(i)
				res := receive(b, s, "p", "72057594037927042", id)
				if len(res.Others) != MaxCapacity-1 {
					b.Fatalf("others = %d, want %d", len(res.Others), MaxCapacity-1)
				}
				if err := s.Done(b.Context(), "p", id); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

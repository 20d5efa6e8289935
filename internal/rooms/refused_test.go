package rooms

import (
	"fmt"
	"testing"
	"time"
)

// Every event in the span of a refused one is refused without a word, whatever the order of
// their times. The first after the span has an effect, or its user is told.
func TestRefusedSpan(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		limit  int
		period time.Duration
		ahead  time.Duration // of the refused event, after the flood began
		until  time.Duration // after noon
	}{
		{40, 10 * time.Second, 0, 250 * time.Millisecond},
		{40, 10 * time.Second, 100 * time.Millisecond, 250 * time.Millisecond},
		{1, 10 * time.Second, 4 * time.Second, 10 * time.Second},
		{2, 4 * time.Minute, time.Second, time.Minute + time.Second}, // then it is told again
	} {
		t.Run(fmt.Sprint(row.limit, row.period, row.ahead), func(t *testing.T) {
			t.Parallel()
			onEach(t, databases(), func(t *testing.T, url string) {
				s := open(t, Config{DatabaseURL: url, FloodLimit: row.limit, FloodPeriod: row.period})
				n := 0
				says := func(at time.Time) Result {
					n++
					return receive(t, s, Event{User: "1", ID: fmt.Sprint(n), At: at})
				}
				for range row.limit {
					if res := says(noon); res.Rejected || res.Refused != (Span{}) {
						t.Fatalf("result within the limit = %+v, want not refused", res)
					}
				}
				want := Span{From: noon.Add(row.ahead - row.period), Until: noon.Add(row.until)}
				got := says(noon.Add(row.ahead)).Refused
				if !got.From.Equal(want.From) || !got.Until.Equal(want.Until) {
					t.Fatalf("Refused = %v, want %v", got, want)
				}
				for _, at := range []time.Time{got.From, noon, noon.Add(row.ahead), got.Until.Add(-time.Millisecond), got.From.Add(row.period)} {
					if res := says(at); !got.Has(at) || res.Why != Flood || res.Notice != Silence {
						t.Errorf("result at %v, in the span = %+v, want a flood without a word", at, res)
					}
				}
				if res := says(got.Until); got.Has(got.Until) || res.Rejected && res.Notice != Flooding {
					t.Errorf("result after the span = %+v, want an effect, or a notice", res)
				}
			})
		})
	}
}

package backoff_test

import (
	"testing"
	"time"

	"chatclub/internal/backoff"
)

func TestDelayDoublesUpToMax(t *testing.T) {
	t.Parallel()
	exact := backoff.Policy{Min: 200 * time.Millisecond, Max: 5 * time.Second, Low: 1, High: 1}
	for _, row := range []struct {
		failures int
		want     time.Duration
	}{
		{0, 200 * time.Millisecond},
		{1, 200 * time.Millisecond},
		{2, 400 * time.Millisecond},
		{5, 3200 * time.Millisecond},
		{6, 5 * time.Second}, // not 6.4 s
		{7, 5 * time.Second},
		{1 << 40, 5 * time.Second},
	} {
		if got := exact.Delay(row.failures); got != row.want {
			t.Errorf("Delay(%d) = %v, want %v", row.failures, got, row.want)
		}
	}
	exact.Min = time.Minute
	if got := exact.Delay(1); got != 5*time.Second {
		t.Errorf("Delay(1) with Min above Max = %v, want Max", got)
	}
}

func TestDelayJitter(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name                    string
		low, high, random, want float64 // want: of the second delay, 2 s
	}{
		{"full, lowest", 0, 1, 0, 0},
		{"full, middle", 0, 1, 0.5, 1},
		{"equal, lowest", 0.5, 1, 0, 1},
		{"equal, middle", 0.5, 1, 0.5, 1.5},
		{"mean kept, lowest", 0.75, 1.25, 0, 1.5},
		{"mean kept, middle", 0.75, 1.25, 0.5, 2},
	} {
		p := backoff.Policy{
			Min: time.Second, Max: time.Minute, Low: row.low, High: row.high,
			Random: func() float64 { return row.random },
		}
		if got := p.Delay(2).Seconds(); got != row.want {
			t.Errorf("%s: Delay(2) = %v s, want %v s", row.name, got, row.want)
		}
	}
}

func TestDelayIsRandomByItself(t *testing.T) {
	t.Parallel()
	p := backoff.Policy{Min: time.Second, Max: time.Minute, Low: 0.5, High: 1}
	seen := make(map[time.Duration]bool)
	for range 100 {
		d := p.Delay(1)
		if d < 500*time.Millisecond || d >= time.Second {
			t.Errorf("Delay(1) = %v, want 500ms to 1s", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Errorf("Delay(1) gave %d different delays in 100, want them spread", len(seen))
	}
}

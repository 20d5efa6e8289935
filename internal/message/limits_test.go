package message

import "testing"

func TestLimitsOf(t *testing.T) {
	t.Parallel()
	limits := Limits{Text: 300, Media: 10}
	for class, want := range map[string]float64{string(ClassText): 300, string(ClassMedia): 10, "": 300, "new": 300} {
		if got := limits.Of(class); got != want {
			t.Errorf("Of(%q) = %v, want %v", class, got, want)
		}
	}
}

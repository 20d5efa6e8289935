package fleet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWireKeepsTimeAndOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		defer w.stop()
		start := time.Now()
		var got, order []int
		for i, d := range []int{5, 1, 3, 1, 5, 2} {
			w.after(time.Duration(d)*time.Millisecond, func() {
				got = append(got, int(time.Since(start).Milliseconds()))
				order = append(order, i)
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]int{1, 1, 2, 3, 5, 5}, got); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
		if want := []int{1, 3, 5, 2, 0, 4}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
	})
}

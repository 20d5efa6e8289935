package wire

import "time"

// Sleep waits for d, and reports whether done stayed open. It returns at once when
// done is closed, even with a d of 0.
func Sleep(d time.Duration, done <-chan struct{}) bool {
	if d <= 0 {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}

package message

import "testing"

// TestNothingBehindMessage checks that what follows a message is an error, also where a
// decoder in a list or an object would see its end.
func TestNothingBehindMessage(t *testing.T) {
	t.Parallel()
	m := `{"id":"a","page":"1","to":"2","text":"x","time":1767225600000}`
	for _, tail := range []string{"}", "]", "]" + m, "} garbage", m, "x", ","} {
		if _, err := DecodeNew([]byte(m+tail), func(*Outbound) {}); err == nil {
			t.Errorf("DecodeNew(message + %q) = nil, want an error", tail)
		}
	}
}

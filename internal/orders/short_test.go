package orders

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"chatclub/internal/message"
)

// TestShortPause checks that the error of a pause shorter than a millisecond names its field.
func TestShortPause(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("POST", "/pages/1/pause", strings.NewReader(`{"for":"1us"}`))
	r.SetPathValue("page", "1")
	_, err := Read(r, at(0))
	if f, _ := errors.AsType[*message.FieldError](err); f == nil || f.Field != "for" {
		t.Errorf("Read() = %v, want an error that names for", err)
	}
}

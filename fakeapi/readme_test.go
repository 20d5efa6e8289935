package fakeapi_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

// TestReadmeExamples: every recipient in the README's table of classes gets the answer
// written beside it, and every control example is accepted.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	a := fakeapitest.New(t, fakeapi.Config{})
	rows := regexp.MustCompile("(?m)^\\|[^|]+\\| (?:`(error-[0-9-]+)`|any, with an empty `message`) \\| ([0-9/]+)").FindAllStringSubmatch(string(b), -1)
	if len(rows) != 11 {
		t.Errorf("examples of classes = %d, want 11", len(rows))
	}
	for _, row := range rows {
		body := `{"recipient":{"id":"42"},"message":{}}`
		if row[1] != "" {
			body = `{"recipient":{"id":"` + row[1] + `"},"message":{"text":"x"}}`
		}
		e := a.Post(body).Error(t)
		got := strconv.Itoa(e.Code)
		if e.Subcode != 0 {
			got += fmt.Sprintf("/%d", e.Subcode)
		}
		if got != row[2] {
			t.Errorf("send %s = code %s, want %s", body, got, row[2])
		}
	}
	controls := regexp.MustCompile(`(?m)^control '([^']+)'`).FindAllStringSubmatch(string(b), -1)
	if len(controls) != 5 {
		t.Errorf("examples of control = %d, want 5", len(controls))
	}
	for _, row := range controls {
		if err := a.Patch([]byte(row[1])); err != nil {
			t.Errorf("control %s = %v, want nil", row[1], err)
		}
	}
}

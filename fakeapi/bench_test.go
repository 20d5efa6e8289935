package fakeapi_test

import (
	"fmt"
	"testing"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

// BenchmarkDo measures the judgement alone, without HTTP.
func BenchmarkDo(b *testing.B) {
	a := fakeapitest.New(b, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Text.PerSecond = 1_000_000 })})
	var resp fakeapi.Response
	req := fakeapi.Request{
		Method: "POST", Path: []byte("/v23.0/1/messages"), Authorization: []byte("Bearer token-1"),
		ContentType: []byte("application/json"),
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		req.Body = []byte(fakeapitest.Text("1000000000000000042", fmt.Sprintf("1/m_AAAAAAAAAAAAAAAAAAAAAAAAAA/%d", i)))
		a.Do(&req, &resp)
		if resp.Status != 200 {
			b.Fatalf("Do = %s, want 200", resp.Body)
		}
	}
}

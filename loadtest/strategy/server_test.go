package strategy

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

func TestCheckRedis(t *testing.T) {
	t.Parallel()
	s := miniredis.RunT(t)
	s.RequireAuth("right")
	address := s.Addr()
	if err := CheckRedis(t.Context(), "redis://:right@"+address); err != nil {
		t.Errorf("with the password: CheckRedis = %v, want nil", err)
	}
	for name, url := range map[string]string{
		"without password": "redis://" + address, "wrong password": "redis://:secret@" + address,
		"nobody there": "redis://:secret@127.0.0.1:1", "another scheme": "http://:secret@" + address,
	} {
		if err := CheckRedis(t.Context(), url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: CheckRedis = %v, want an error without the password", name, err)
		}
	}
}

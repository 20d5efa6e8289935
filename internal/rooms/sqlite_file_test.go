package rooms

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSQLiteFile has files that cannot be opened. The error names each.
func TestSQLiteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, want := range map[string]string{
		dir:                                   "is a directory",
		filepath.Join(dir, "none", "chat.db"): "no such file or directory",
	} {
		l, err := openSQLite(file)
		if err != nil {
			t.Fatal(err)
		}
		err = l.acquire(t.Context())
		if err == nil || !strings.Contains(err.Error(), file+": "+want) {
			t.Errorf("acquire(%s) = %v, want the file's name and %q", file, err, want)
		}
		if err := l.db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSQLiteFileGone: a file that is deleted, moved or replaced while it is open is told,
// until it is back.
func TestSQLiteFileGone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "chat.db")
	s, err := Open(Config{DatabaseURL: "sqlite:" + file})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, row := range []struct {
		name string
		do   func() error
		gone bool
	}{
		{"opened", func() error { return s.Migrate(t.Context()) }, false},
		{"moved", func() error { return os.Rename(file, file+".old") }, true},
		{"replaced", func() error { return os.WriteFile(file, nil, 0o600) }, true},
		{"moved back", func() error { return os.Rename(file+".old", file) }, false},
		{"deleted", func() error { return os.Remove(file) }, true},
	} {
		if err := row.do(); err != nil {
			t.Fatal(err)
		}
		err := s.Ping(t.Context())
		if errors.Is(err, ErrGone) != row.gone || !row.gone && err != nil {
			t.Errorf("Ping() with the file %s = %v, want ErrGone: %v", row.name, err, row.gone)
		}
		if err != nil && strings.Contains(err.Error(), file) {
			t.Errorf("Ping() with the file %s = %v, which holds its path", row.name, err)
		}
	}
}

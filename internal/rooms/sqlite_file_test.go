package rooms

import (
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

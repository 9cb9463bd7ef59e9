package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/davit-cd/davit/internal/store/sqlite"
	"github.com/davit-cd/davit/internal/store/storetest"
)

// open opens the store in a file of the test.
func open(tb testing.TB, o sqlite.Options) *sqlite.Store {
	tb.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(tb.TempDir(), "davit?100%.db") // names that a URI would take apart
	}
	s, err := sqlite.Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) storetest.Store {
		t.Helper()
		return open(t, sqlite.Options{Now: clock.Now})
	})
}

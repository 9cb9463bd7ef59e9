package temporal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/davit-cd/davit/internal/promo"
)

// lockFile is the name of the lock below a locked directory. It stays when the lock is released: removing
// it would let two processes lock two different files of the same name.
const lockFile = "davit.lock"

// Lock is the sole right of this process to use a directory. The system takes it back when the process ends.
type Lock struct {
	release func() error
}

// LockDir takes the lock of a directory that exists. While another process (or another part of this one)
// holds it, it returns a Configuration error that names the process.
func LockDir(dir string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600) //nolint:gosec // the operator's own data dir
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "lock data dir %q: %w", dir, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		owner := holder(f)
		_ = f.Close()
		return nil, promo.Errorf(promo.CodeConfiguration, "data dir %q is in use by %s", dir, owner).
			WithHint("stop that process, or choose another --data-dir")
	}
	if err == nil {
		err = writePID(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, promo.Errorf(promo.CodeConfiguration, "lock data dir %q: %w", dir, err)
	}
	return &Lock{release: sync.OnceValue(f.Close)}, nil
}

// Release gives the directory free. It may be called more than once.
func (l *Lock) Release() error { return l.release() }

func holder(f *os.File) string {
	raw, err := io.ReadAll(io.LimitReader(f, 32)) // a process id, never more
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || convErr != nil {
		return "another process"
	}
	return "process " + strconv.Itoa(pid)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

package agent

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/promo"
)

// keyring keeps the agent's credential, and while it is being replaced both: the answer to the replacement may
// be lost, and then only trying tells which one the server knows.
type keyring struct {
	name, file string
	mu         sync.Mutex
	secrets    []promo.Secret // the first is in use
}

// keyFile is the file's shape.
type keyFile struct {
	Credentials []string `json:"credentials"`
}

func openKeyring(name, file string) (*keyring, error) {
	k := &keyring{name: name, file: file}
	if file == "" {
		return k, nil
	}
	raw, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	var stored keyFile
	if err == nil {
		err = json.Unmarshal(raw, &stored)
	}
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "credential file %q: %w", file, err).
			WithHint("delete it and enrol the agent again")
	}
	for _, c := range stored.Credentials {
		if gateway.AgentOf(promo.Secret(c)) != name {
			return nil, promo.Errorf(promo.CodeConfiguration, "credential file %q is not that of agent %q", file, name)
		}
		k.secrets = append(k.secrets, promo.Secret(c))
	}
	return k, nil
}

func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file) //nolint:gosec // named by the agent's own configuration
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, 4096)) // two credentials take 300 bytes
}

// secret returns the credential in use, "" if there is none.
func (k *keyring) secret() promo.Secret {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.secrets) == 0 {
		return ""
	}
	return k.secrets[0]
}

func (k *keyring) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.secrets)
}

// tryNext puts the next credential to use.
func (k *keyring) tryNext() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.secrets) > 1 {
		k.secrets = append(slices.Clone(k.secrets[1:]), k.secrets[0])
	}
}

// settle keeps only the credential in use: the server has taken it.
func (k *keyring) settle() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.secrets) < 2 {
		return nil
	}
	k.secrets = k.secrets[:1]
	return k.save()
}

// prepare makes a second credential and stores it before the server hears of it.
func (k *keyring) prepare() (promo.Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := gateway.NewCredential(k.name)
	k.secrets = []promo.Secret{k.secrets[0], next}
	return next, k.save()
}

// fresh replaces everything by one new credential, stored before the server hears of it.
func (k *keyring) fresh() (promo.Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.secrets = []promo.Secret{gateway.NewCredential(k.name)}
	return k.secrets[0], k.save()
}

// save writes the file whole or not at all; k.mu is held.
func (k *keyring) save() error {
	if k.file == "" {
		return nil
	}
	var f keyFile
	for _, s := range k.secrets {
		f.Credentials = append(f.Credentials, s.Reveal())
	}
	raw, err := json.Marshal(f)
	if err == nil {
		err = replaceFile(k.file, raw)
	}
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "write the credential file %q: %w", k.file, err)
	}
	return nil
}

// replaceFile writes data beside the file and renames it; temporary files have mode 0600.
func replaceFile(file string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/promo"
)

// UpOptions are what `davit up` starts with.
type UpOptions struct {
	Listen      string
	AgentListen string
	DataDir     string
	Demo        bool
	// Users is a users file; "" lets the demo's users in.
	Users string
	// TLSCert and TLSKey are PEM files; URL is where people find the server.
	TLSCert, TLSKey, URL string
	// Ready is to be called once, when the server answers. It leaves the way in for the other commands of this
	// machine and prints what is where.
	Ready func(UpInfo) error
}

// UpInfo is what is where, once it is up.
type UpInfo struct {
	URL string
	// Token lets the command line of this machine in as admin.
	Token promo.Secret
	// Lines say what is where, for people.
	Lines []string
}

func (a *app) upCommand() *cobra.Command {
	o := UpOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine in one process",
		Example: "  davit up --demo\n  davit up --listen 127.0.0.1:9090 --data-dir ./data\n" +
			"  davit up --users users.yaml --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --url https://davit.example.com:8443",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.Up == nil {
				return promo.Errorf(promo.CodeConfiguration, "this binary has no server")
			}
			if o.DataDir == "" {
				return usagef("--data-dir is needed: this system has no folder for configuration")
			}
			var mine access
			o.Ready = func(info UpInfo) error {
				mine = access{URL: info.URL, Token: info.Token.Reveal()}
				for _, line := range info.Lines {
					if err := a.print("%s", line); err != nil {
						return err
					}
				}
				if a.ConfigDir == "" {
					return nil
				}
				return writeAccess(a.upFile(), mine)
			}
			return errors.Join(a.Up(cmd.Context(), o), a.forgetUp(mine))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "address of pages and REST")
	f.StringVar(&o.AgentListen, "agent-listen", "127.0.0.1:0", "address of the gateway that agents knock at")
	f.StringVar(&o.DataDir, "data-dir", a.defaultDataDir(), "where everything is kept")
	f.BoolVar(&o.Demo, "demo", false, "load the quickstart example and run a first promotion")
	f.StringVar(&o.Users, "users", "", "users file; without one everybody on this machine is a demo user")
	f.StringVar(&o.TLSCert, "tls-cert", "", "certificate in PEM; needed where others can reach the server")
	f.StringVar(&o.TLSKey, "tls-key", "", "key of the certificate in PEM")
	f.StringVar(&o.URL, "url", "", "where people find the server, if that is not --listen")
	return cmd
}

func (a *app) defaultDataDir() string {
	if a.ConfigDir == "" {
		return ""
	}
	return filepath.Join(a.ConfigDir, "davit", "data")
}

// forgetUp takes the way in away, unless another `davit up` has put its own there.
func (a *app) forgetUp(mine access) error {
	if mine.URL == "" || a.ConfigDir == "" {
		return nil
	}
	if at, err := readAccess(a.upFile()); err != nil || at != mine {
		return nil //nolint:nilerr // a file that can't be read is not ours to take away
	}
	if err := os.Remove(a.upFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

package cli

import (
	"bufio"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// newSecret is a token for a users file: the person keeps the secret, the file the hash.
type newSecret struct {
	Token  string `json:"token,omitempty"`
	SHA256 string `json:"sha256"`
}

// tokenHashCommand helps to write a users file. It needs no server.
func (a *app) tokenHashCommand() *cobra.Command {
	fresh := false
	cmd := &cobra.Command{
		Use: "hash", Short: "Print the hash of a token, for a users file",
		Long: "Reads a token from standard input, or makes one with --new, and prints its hash: what a users file keeps.\n" +
			"The token itself is shown once, with --new; whoever has it is let in.",
		Example: "  davit token hash --new\n  davit token hash < token.txt", Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			var out newSecret
			if fresh {
				secret, hash := auth.NewSecret()
				out = newSecret{Token: secret.Reveal(), SHA256: hash}
				return a.show(out, func() error {
					if err := a.print("token:  %s", out.Token); err != nil {
						return err
					}
					return a.print("sha256: %s", out.SHA256)
				})
			}
			line, err := bufio.NewReader(io.LimitReader(a.Stdin, maxAccess)).ReadString('\n')
			secret := strings.TrimSpace(line)
			switch {
			case secret == "":
				return usageError{promo.Errorf(promo.CodeConfiguration, "no token on standard input: %w", err).WithHint("davit token hash --new makes one")}
			case !strings.HasPrefix(secret, auth.TokenPrefix):
				return usageError{promo.Errorf(promo.CodeConfiguration, "this is no token of Davit's").
					WithHint("a word that people think of can be guessed from its hash: davit token hash --new makes a token")}
			}
			out.SHA256 = auth.HashToken(promo.Secret(secret))
			return a.show(out, func() error { return a.print("%s", out.SHA256) })
		},
	}
	cmd.Flags().BoolVar(&fresh, "new", false, "make a token")
	a.outputFlag(cmd)
	return cmd
}

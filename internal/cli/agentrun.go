package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// AgentOptions are what `davit agent run` starts with.
type AgentOptions struct {
	Name string `yaml:"name"`
	// Gateway is where the server listens for agents.
	Gateway string `yaml:"gateway"`
	// Sandbox is the directory of the agent's sandbox cluster, its credential and its mirrors.
	Sandbox string `yaml:"sandbox"`
	// CAFile holds certificates that the gateway's is signed by.
	CAFile       string   `yaml:"caFile"`
	Projects     []string `yaml:"projects"`
	Applications []string `yaml:"applications"`
	GitUser      string   `yaml:"gitUser"`
	// TokenFile and GitPasswordFile hold secrets; they are read before the agent starts.
	TokenFile       string       `yaml:"tokenFile"`
	GitPasswordFile string       `yaml:"gitPasswordFile"`
	Token           promo.Secret `yaml:"-"`
	GitPassword     promo.Secret `yaml:"-"`
}

// secretLine reads a secret from a file's first line; "-" is standard input.
func (a *app) secretLine(file string) (promo.Secret, error) {
	in := a.Stdin
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // named by the person who runs the agent
		if err != nil {
			return "", promo.Errorf(promo.CodeConfiguration, "%w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxAccess))
	if err != nil {
		return "", promo.Errorf(promo.CodeConfiguration, "%q: %w", file, err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return promo.Secret(strings.TrimSpace(line)), nil
}

// readAgentConfig reads a configuration file; its paths are relative to it. What flags gave counts instead.
func readAgentConfig(file string, flags *AgentOptions) error {
	f, err := os.Open(file) //nolint:gosec // named by the person who runs the agent
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "%w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "%q: %w", file, err)
	}
	var c AgentOptions
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return promo.Errorf(promo.CodeConfiguration, "%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	dir := filepath.Dir(file)
	for _, p := range []*string{&c.Sandbox, &c.CAFile, &c.TokenFile, &c.GitPasswordFile} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	for i, p := range c.Applications {
		if !filepath.IsAbs(p) {
			c.Applications[i] = filepath.Join(dir, p)
		}
	}
	c.Name, c.Gateway, c.Sandbox = orDefault(flags.Name, c.Name), orDefault(flags.Gateway, c.Gateway), orDefault(flags.Sandbox, c.Sandbox)
	c.CAFile, c.GitUser = orDefault(flags.CAFile, c.CAFile), orDefault(flags.GitUser, c.GitUser)
	c.TokenFile, c.GitPasswordFile = orDefault(flags.TokenFile, c.TokenFile), orDefault(flags.GitPasswordFile, c.GitPasswordFile)
	if len(flags.Projects) > 0 {
		c.Projects = flags.Projects
	}
	c.Applications = append(c.Applications, flags.Applications...)
	*flags = c
	return nil
}

func (a *app) agentRunCommand() *cobra.Command {
	var o AgentOptions
	var config string
	cmd := &cobra.Command{
		Use: "run", Short: "Run an agent with a sandbox cluster, until it is stopped",
		Long: "Runs one agent as a process of its own. This version has one engine: a sandbox cluster, whose state lies in the directory of --sandbox.\n" +
			"The enrolment token is needed the first time only; it comes from --token-file or DAVIT_AGENT_TOKEN, the password of Git from\n" +
			"--git-password-file or DAVIT_GIT_PASSWORD.",
		Example: "  davit agent run --name moon --gateway 127.0.0.1:7400 --sandbox ./moon --token-file moon.token\n  davit agent run --config agent.yaml",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.RunAgent == nil {
				return promo.Errorf(promo.CodeConfiguration, "this binary has no agent")
			}
			if config != "" {
				if err := readAgentConfig(config, &o); err != nil {
					return err
				}
			}
			if o.Name == "" || o.Gateway == "" || o.Sandbox == "" {
				return usagef("--name, --gateway and --sandbox are needed, or a --config that has them; other engines than the sandbox are not in this version")
			}
			o.Token, o.GitPassword = promo.Secret(a.env("DAVIT_AGENT_TOKEN")), promo.Secret(a.env("DAVIT_GIT_PASSWORD"))
			for file, into := range map[string]*promo.Secret{o.TokenFile: &o.Token, o.GitPasswordFile: &o.GitPassword} {
				if file == "" {
					continue
				}
				secret, err := a.secretLine(file)
				if err != nil {
					return err
				}
				*into = secret
			}
			return a.RunAgent(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&config, "config", "", "configuration file; flags count instead of what it says")
	f.StringVar(&o.Name, "name", "", "name of the agent, as it was created")
	f.StringVar(&o.Gateway, "gateway", "", "host and port that the server listens on for agents")
	f.StringVar(&o.Sandbox, "sandbox", "", "directory of the sandbox cluster, the credential and mirrors")
	f.StringVar(&o.CAFile, "ca-file", "", "certificates that the gateway's is signed by; the system's where left out")
	f.StringVar(&o.TokenFile, "token-file", "", "file with the enrolment token; - is standard input")
	f.StringVar(&o.GitUser, "git-user", "", "user name towards the applications' repositories")
	f.StringVar(&o.GitPasswordFile, "git-password-file", "", "file with the password towards the applications' repositories")
	f.StringSliceVar(&o.Projects, "projects", nil, "projects that may drive applications here; all where left out")
	f.StringArrayVar(&o.Applications, "application", nil, "file of Argo CD Application manifests to declare at the start")
	return cmd
}

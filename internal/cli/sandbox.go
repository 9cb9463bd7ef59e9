package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

func (a *app) sandboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "sandbox", Short: "Work on the sandbox clusters of `davit up`",
		Example: "  davit sandbox clusters\n  davit sandbox edit us checkout-us-east --replicas 0\n  davit sandbox diff us checkout-us-east",
		Args:    usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.sandboxClustersCommand(), a.sandboxApplyCommand(), a.sandboxEditCommand(), a.sandboxRefreshCommand(), a.sandboxSyncCommand(), a.sandboxDiffCommand())
	return cmd
}

func (a *app) sandboxClustersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "clusters", Short: "List sandbox clusters with their applications", Example: "  davit sandbox clusters", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			clusters, err := get[[]api.SandboxCluster](cmd.Context(), c, "/api/sandbox/clusters", nil)
			if err != nil {
				return err
			}
			return a.show(clusters, func() error {
				var rows [][]string
				for _, k := range clusters {
					if len(k.Applications) == 0 {
						rows = append(rows, []string{k.Name, "(none)", "", "", ""})
					}
					for _, p := range k.Applications {
						rows = append(rows, []string{k.Name, p.Name, string(p.Sync), string(p.Health), short(p.Revision)})
					}
				}
				return a.table(rowsOf([]string{"CLUSTER", "APPLICATION", "SYNC", "HEALTH", "REVISION"}, rows, func(r []string) []string { return r }))
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) sandboxApplyCommand() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use: "apply CLUSTER", Short: "Declare Argo CD applications on a sandbox cluster", Example: "  davit sandbox apply us --filename application.yaml", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(files) == 0 {
				return usagef("--filename is needed")
			}
			sources, err := a.readFiles(files)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			names, err := post[[]string](cmd.Context(), c, apiPath("sandbox", "clusters", args[0], "apply"), api.SandboxApplyRequest{Files: sources})
			if err != nil {
				return err
			}
			return a.print("cluster %s has %s", args[0], strings.Join(names, ", "))
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "file or directory of Application manifests; - is standard input")
	return cmd
}

func (a *app) sandboxEditCommand() *cobra.Command {
	var replicas, image, remove, resource string
	cmd := &cobra.Command{
		Use: "edit CLUSTER APPLICATION", Short: "Change a live object behind Git's back",
		Example: "  davit sandbox edit us checkout-us-east --replicas 0\n  davit sandbox edit us checkout-us-east --image registry.example.com/acme/checkout:hotfix\n" +
			"  davit sandbox edit us checkout-us-east --delete Deployment/checkout",
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.SandboxEditRequest{Image: image, Delete: remove != ""}
			if kind, name, ok := strings.Cut(orDefault(remove, resource), "/"); ok {
				req.Resource = promo.ResourceRef{Kind: kind, Name: name}
			} else if remove+resource != "" {
				return usagef("%q is not KIND/NAME", orDefault(remove, resource))
			}
			if replicas != "" {
				n, err := strconv.Atoi(replicas)
				if err != nil || n < 0 {
					return usagef("--replicas %q is no number of replicas", replicas)
				}
				req.Replicas = &n
			}
			return a.sandboxDo(cmd, args, "edit", req, "changed")
		},
	}
	f := cmd.Flags()
	f.StringVar(&replicas, "replicas", "", "set the number of replicas")
	f.StringVar(&image, "image", "", "set the first container's image")
	f.StringVar(&remove, "delete", "", "delete KIND/NAME")
	f.StringVar(&resource, "resource", "", "KIND/NAME of the object; the only Deployment where left out")
	cmd.MarkFlagsMutuallyExclusive("replicas", "image", "delete")
	cmd.MarkFlagsOneRequired("replicas", "image", "delete")
	return cmd
}

func (a *app) sandboxRefreshCommand() *cobra.Command {
	return &cobra.Command{
		Use: "refresh CLUSTER APPLICATION", Short: "Compare an application with Git anew", Example: "  davit sandbox refresh us checkout-us-east", Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.sandboxDo(cmd, args, "refresh", api.SandboxRef{}, "refreshed")
		},
	}
}

func (a *app) sandboxSyncCommand() *cobra.Command {
	req := api.SandboxSyncRequest{}
	cmd := &cobra.Command{
		Use: "sync CLUSTER APPLICATION", Short: "Sync an application outside any promotion", Example: "  davit sandbox sync us checkout-us-east --prune", Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.sandboxDo(cmd, args, "sync", req, "sync asked for:")
		},
	}
	cmd.Flags().StringVar(&req.Revision, "revision", "", "revision; what the application follows where left out")
	cmd.Flags().BoolVar(&req.Prune, "prune", false, "delete what Git no longer has")
	return cmd
}

// sandboxDo sends a request about an application.
func (a *app) sandboxDo(cmd *cobra.Command, args []string, verb string, body any, said string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if _, err := post[struct{}](cmd.Context(), c, apiPath("sandbox", "clusters", args[0], "applications", args[1], verb), body); err != nil {
		return err
	}
	return a.print("%s %s on %s", said, args[1], args[0])
}

func (a *app) sandboxDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "diff CLUSTER APPLICATION", Short: "Show how live objects differ from Git", Example: "  davit sandbox diff us checkout-us-east", Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			diffs, err := get[[]promo.ResourceDiff](cmd.Context(), c, apiPath("sandbox", "clusters", args[0], "applications", args[1], "diff"), nil)
			if err != nil {
				return err
			}
			return a.show(diffs, func() error {
				for _, d := range diffs {
					if err := a.print("%s/%s%s\n%s", d.Kind, d.Name, mark(d.RequiresPruning, " (not in Git)"), strings.TrimRight(d.Unified, "\n")); err != nil {
						return err
					}
				}
				if len(diffs) == 0 {
					return a.print("no difference")
				}
				return nil
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

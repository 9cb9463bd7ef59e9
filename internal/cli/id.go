package cli

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/davit-cd/davit/internal/promo"
)

// promotionID makes a whole id of what a person wrote: "7" where one pipeline has a number 7, "checkout/7", or
// "default/checkout/7".
func (a *app) promotionID(ctx context.Context, c *client, text string) (string, error) {
	parts := strings.Split(strings.Trim(text, "/"), "/")
	if _, err := strconv.Atoi(parts[len(parts)-1]); err != nil || len(parts) > 3 {
		return "", usageError{promo.Errorf(promo.CodeConfiguration, "%q is no id of a promotion", text).WithHint("like checkout/7; `davit get promotions` lists them")}
	}
	switch len(parts) {
	case 3:
		return strings.Join(parts, "/"), nil
	case 2:
		return a.project + "/" + strings.Join(parts, "/"), nil
	}
	list, err := get[[]promo.Promotion](ctx, c, a.projectPath("promotions"), url.Values{"limit": {"1000"}})
	if err != nil {
		return "", err
	}
	var found []string
	for _, p := range list {
		if strconv.Itoa(p.Number) == parts[0] {
			found = append(found, p.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", promo.Errorf(promo.CodeNotFound, "there is no promotion %s in project %q", parts[0], a.project)
	case 1:
		return found[0], nil
	}
	return "", usageError{promo.Errorf(promo.CodeConfiguration, "%q could be %s", text, strings.Join(found, " or ")).WithHint("give the pipeline too")}
}

// promotionPath is the path of a promotion by its whole id.
func promotionPath(id string, verb ...string) string {
	p := strings.SplitN(id, "/", 3)
	return apiPath(append([]string{"projects", p[0], "promotions", p[1], p[2]}, verb...)...)
}

// rollbackPath is the path of a rollback by its id.
func rollbackPath(id string, verb ...string) string {
	p := strings.SplitN(id, "/", 4)
	return apiPath(append([]string{"projects", p[0], "rollbacks", p[1], p[2], p[3]}, verb...)...)
}

// runPath is the path of a verb of a promotion or, where the id has four parts, of a rollback; and its whole id.
func (a *app) runPath(ctx context.Context, c *client, text, verb string) (path, id string, err error) {
	if id = strings.TrimPrefix(strings.Trim(text, "/"), "rollback/"); strings.Count(id, "/") == 3 {
		return rollbackPath(id, verb), id, nil
	}
	id, err = a.promotionID(ctx, c, text)
	if err != nil {
		return "", "", err
	}
	return promotionPath(id, verb), id, nil
}

// shortID is the id without the project that is meant anyway.
func (a *app) shortID(id string) string { return strings.TrimPrefix(id, a.project+"/") }

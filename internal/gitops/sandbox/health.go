package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// healthOf judges one live object as Argo CD's health checks do; "" means that there is none for its kind.
func (l *liveObject) healthOf(now time.Time, t Timings) (promo.Health, string) {
	o := l.Live
	switch {
	case o.Kind() == "Deployment" && render.Dig(o.Fields, "spec", "paused") == true:
		return promo.HealthSuspended, "Deployment is paused"
	case (o.Kind() == "CronJob" || o.Kind() == "Job") && render.Dig(o.Fields, "spec", "suspend") == true:
		return promo.HealthSuspended, o.Kind() + " is suspended"
	case len(l.Pods) > 0:
		return l.rollout(now, t)
	case hasHealthCheck(o.Key()):
		return promo.HealthHealthy, ""
	default:
		return "", ""
	}
}

// hasHealthCheck names the kinds that Argo CD judges by itself.
func hasHealthCheck(k render.Key) bool {
	kinds := map[string][]string{
		"":                       {"Service", "PersistentVolumeClaim", "Pod"},
		"apps":                   {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"},
		"batch":                  {"Job", "CronJob"},
		"networking.k8s.io":      {"Ingress"},
		"autoscaling":            {"HorizontalPodAutoscaler"},
		"apiregistration.k8s.io": {"APIService"},
	}
	return slices.Contains(kinds[k.Group], k.Kind)
}

// rollout says how far a workload is, in the words of Argo CD.
func (l *liveObject) rollout(now time.Time, t Timings) (promo.Health, string) {
	p, counts := l.Pods[len(l.Pods)-1], l.running(now)
	ready := counts[len(counts)-1]
	if ready >= p.Want {
		return promo.HealthHealthy, ""
	}
	deadline, bounded := l.deadline(now, t)
	late := bounded && !now.Before(deadline)
	switch l.Live.Kind() {
	case "Deployment":
		if late {
			return promo.HealthDegraded, fmt.Sprintf("Deployment %q exceeded its progress deadline", l.Live.Name())
		}
		if len(l.Pods) > 1 {
			return promo.HealthProgressing, fmt.Sprintf("Waiting for rollout to finish: %d out of %d new replicas have been updated...", ready, p.Want)
		}
		return promo.HealthProgressing, fmt.Sprintf("Waiting for rollout to finish: %d of %d updated replicas are available...", ready, p.Want)
	case "Job":
		if late && p.Fail != "" {
			return promo.HealthDegraded, "Job has reached the specified backoff limit"
		}
		return promo.HealthProgressing, ""
	case "DaemonSet":
		return promo.HealthProgressing, fmt.Sprintf("Waiting for daemon set %q rollout to finish: %d of %d updated pods are available...", l.Live.Name(), ready, p.Want)
	default:
		return promo.HealthProgressing, fmt.Sprintf("Waiting for %d pods to be ready...", p.Want-ready)
	}
}

// podTrouble says why a workload's pods don't start, as `kubectl get pods` would.
func (l *liveObject) podTrouble() string {
	if len(l.Pods) == 0 {
		return ""
	}
	switch l.Pods[len(l.Pods)-1].Fail {
	case failCrash:
		return "CrashLoopBackOff: back-off restarting failed container"
	case failPull:
		return "ImagePullBackOff: back-off pulling image"
	default:
		return ""
	}
}

// worse orders health as Argo CD aggregates it.
func worse(than, h promo.Health) bool {
	order := []promo.Health{
		promo.HealthHealthy, promo.HealthSuspended, promo.HealthProgressing, promo.HealthMissing,
		promo.HealthDegraded, promo.HealthUnknown,
	}
	return slices.Index(order, h) > slices.Index(order, than)
}

// aggregate is Argo CD's rule: the worst of all; a missing object counts only if its kind has a health check, and
// an application none of whose objects is live is Missing.
func aggregate(resources []promo.Resource) (promo.Health, string) {
	health, live := promo.HealthHealthy, false
	for _, r := range resources {
		live = live || r.Health != promo.HealthMissing
		if r.Health == promo.HealthMissing && !hasHealthCheck(keyOf(r)) {
			continue
		}
		if r.Health != "" && worse(health, r.Health) {
			health = r.Health
		}
	}
	if !live && len(resources) > 0 && worse(health, promo.HealthMissing) {
		health = promo.HealthMissing
	}
	if health == promo.HealthHealthy {
		return health, ""
	}
	var causes []string
	for _, r := range resources {
		if r.Health == health {
			causes = append(causes, strings.TrimSuffix(keyOf(r).String()+": "+r.Message, ": "))
		}
	}
	const shown = 5 // the rest is in the resources
	if more := len(causes) - shown; more > 0 {
		causes = append(causes[:shown], fmt.Sprintf("and %d more", more))
	}
	return health, strings.Join(causes, "; ")
}

func keyOf(r promo.Resource) render.Key {
	return render.Key{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

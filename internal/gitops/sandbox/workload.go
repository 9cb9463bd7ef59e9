package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// The annotations by which manifests ask for trouble.
const (
	annotationFail    = "davit.dev/sandbox-fail"
	annotationStart   = "davit.dev/sandbox-start"
	annotationErrors  = "davit.dev/sandbox-error-rate"
	annotationLatency = "davit.dev/sandbox-latency"
)

// The values of annotationFail.
const (
	failCrash = "crashloop"
	failPull  = "image-pull"
	failHang  = "hang"
)

const (
	defaultLatency  = 40 * time.Millisecond
	defaultDeadline = 600 * time.Second // Kubernetes' progressDeadlineSeconds
	maxStart        = time.Hour
	maxLatency      = time.Minute
	maxReplicas     = 10000
	// rolloutSteps is in how many steps at most a rollout is seen to proceed, however many replicas it has.
	rolloutSteps = 10
)

// liveObject is an object as the cluster holds it.
type liveObject struct {
	// Owner is the key of the application that manages it.
	Owner string `json:"owner"`
	// Live is what the API server would answer; Applied is what the last sync sent.
	Live    render.Object `json:"live"`
	Applied render.Object `json:"applied"`
	// Pods are a workload's sets of equal pods, oldest first; the last is the wanted one.
	Pods []podSet `json:"pods,omitempty"`
}

// podSet is the pods of one version of a workload's template (a ReplicaSet).
type podSet struct {
	Hash      string        `json:"hash"`
	App       string        `json:"app"`
	Version   string        `json:"version"`
	Fail      string        `json:"fail,omitempty"`
	ErrorRate float64       `json:"errorRate,omitempty"`
	Latency   time.Duration `json:"latency"`
	// From StartedAt the number of ready pods goes from Base to Want and takes Took.
	StartedAt time.Time     `json:"startedAt"`
	Took      time.Duration `json:"took"`
	Base      int           `json:"base"`
	Want      int           `json:"want"`
}

// steps returns how many steps the set's start has and how many are done.
func (p podSet) steps(now time.Time) (done, of int) {
	of = max(1, min(p.Want-p.Base, rolloutSteps))
	switch {
	case p.Fail != "" && p.Want > p.Base:
		return 0, of
	case p.Took <= 0 || !now.Before(p.StartedAt.Add(p.Took)):
		return of, of
	default:
		return max(0, int(int64(of)*int64(now.Sub(p.StartedAt))/int64(p.Took))), of
	}
}

// ready returns how many pods of the set would be ready if it were alone.
func (p podSet) ready(now time.Time) int {
	if p.Want <= p.Base {
		return p.Want // scaling down takes no time
	}
	done, of := p.steps(now)
	return p.Base + (p.Want-p.Base)*done/of
}

func isWorkload(o render.Object) bool {
	switch o.Group() {
	case "apps":
		return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}, o.Kind())
	case "batch":
		return o.Kind() == "Job"
	}
	return false
}

// running returns the ready pods of each set now. Old pods stay until new ones replace them.
func (l *liveObject) running(now time.Time) []int {
	counts := make([]int, len(l.Pods))
	if len(l.Pods) == 0 {
		return counts
	}
	last := len(l.Pods) - 1
	counts[last] = l.Pods[last].ready(now)
	room := max(0, l.Pods[last].Want-counts[last])
	for i := last - 1; i >= 0; i-- {
		counts[i] = min(l.Pods[i].Base, room)
		room -= counts[i]
	}
	return counts
}

// nextChange returns when a workload's health or number of ready pods changes by itself.
func (l *liveObject) nextChange(now time.Time, t Timings) (time.Time, bool) {
	if len(l.Pods) == 0 {
		return time.Time{}, false
	}
	p := l.Pods[len(l.Pods)-1]
	done, of := p.steps(now)
	if p.Want <= p.Base || done >= of {
		return time.Time{}, false
	}
	deadline, bounded := l.deadline(now, t)
	if p.Fail != "" {
		return deadline, bounded && deadline.After(now)
	}
	// Rounded up: a whole step must be done by then.
	next := p.StartedAt.Add((p.Took*time.Duration(done+1) + time.Duration(of) - 1) / time.Duration(of))
	if bounded && deadline.After(now) && deadline.Before(next) {
		return deadline, true
	}
	return next, true
}

// deadline returns when a Deployment that makes no progress from now on is given up.
func (l *liveObject) deadline(now time.Time, t Timings) (time.Time, bool) {
	if l.Live.Kind() == "Job" {
		return l.Pods[len(l.Pods)-1].StartedAt.Add(t.ProgressDeadline), true
	}
	if l.Live.Kind() != "Deployment" {
		return time.Time{}, false
	}
	p := l.Pods[len(l.Pods)-1]
	patience := defaultDeadline
	if seconds, ok := render.Dig(l.Live.Fields, "spec", "progressDeadlineSeconds").(float64); ok {
		patience = time.Duration(seconds * float64(time.Second))
	}
	if p.Fail != "" {
		patience = min(patience, t.ProgressDeadline)
	}
	done, of := p.steps(now)
	progressed := p.StartedAt.Add(p.Took * time.Duration(done) / time.Duration(of))
	return progressed.Add(patience), true
}

// react brings a workload's pods in line with its spec.
func (l *liveObject) react(now time.Time, t Timings) error {
	if !isWorkload(l.Live) {
		return nil
	}
	set, err := describe(l.Live, t)
	if err != nil {
		return err
	}
	counts := l.running(now)
	var present *podSet
	for i := range l.Pods {
		if l.Pods[i].Hash == set.Hash {
			present = &l.Pods[i]
			set.Base = counts[i]
		}
	}
	current := len(l.Pods) > 0 && l.Pods[len(l.Pods)-1].Hash == set.Hash
	if current && present.Want == set.Want {
		return nil
	}
	set.StartedAt = now
	old := l.Pods[:0:0]
	for i, p := range l.Pods {
		if p.Hash != set.Hash && counts[i] > 0 { // an old set keeps the pods it has until they are replaced
			p.Base, p.Want = counts[i], counts[i]
			old = append(old, p)
		}
	}
	l.Pods = append(old, set)
	return nil
}

// describe reads what kind of pods a workload wants.
func describe(o render.Object, t Timings) (podSet, error) {
	p := podSet{Want: 1, Took: t.Rollout, Latency: defaultLatency}
	if n, ok := render.Dig(o.Fields, "spec", "replicas").(float64); ok {
		p.Want = int(n)
	}
	if p.Want < 0 || p.Want > maxReplicas {
		return p, promo.Errorf(promo.CodeConfiguration, "%s: %d replicas, a sandbox cluster has room for 0 to %d", o.Key(), p.Want, maxReplicas)
	}
	p.App = cmp.Or(templateLabel(o, "app.kubernetes.io/name"), templateLabel(o, "app"), o.Name())
	p.Version = cmp.Or(templateLabel(o, "app.kubernetes.io/version"), tagOf(images(o)))
	p.Fail = ofVersion(behaviour(o, annotationFail), p.Version)
	if p.Fail != "" && !slices.Contains([]string{failCrash, failPull, failHang}, p.Fail) {
		return p, wrongAnnotation(o, annotationFail, p.Fail, "crashloop, image-pull or hang")
	}
	var err error
	if p.Took, err = durationOf(o, annotationStart, t.Rollout, maxStart); err != nil {
		return p, err
	}
	if p.Latency, err = durationOf(o, annotationLatency, defaultLatency, maxLatency); err != nil {
		return p, err
	}
	if text := ofVersion(behaviour(o, annotationErrors), p.Version); text != "" {
		if p.ErrorRate, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(p.ErrorRate) || p.ErrorRate < 0 || p.ErrorRate > 1 {
			return p, wrongAnnotation(o, annotationErrors, text, "a share from 0 to 1")
		}
	}
	p.Hash = hashOf(render.Dig(o.Fields, "spec", "template"), p.Fail, p.Took, p.ErrorRate, p.Latency)
	return p, nil
}

// ofVersion reads "v1.2.0=0.25, v1.3.0=0.5" as the value for a version, "" where it has none; any other text is the
// value for every version.
func ofVersion(text, version string) string {
	if !strings.Contains(text, "=") {
		return text
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if strings.TrimSpace(name) == version {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func wrongAnnotation(o render.Object, name, value, want string) error {
	return promo.Errorf(promo.CodeConfiguration, "%s: annotation %s is %q, not %s", o.Key(), name, value, want)
}

func durationOf(o render.Object, annotation string, otherwise, limit time.Duration) (time.Duration, error) {
	text := behaviour(o, annotation)
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > limit {
		return 0, wrongAnnotation(o, annotation, text, "a duration up to "+limit.String())
	}
	return d, nil
}

// behaviour reads an annotation of the pod template or else of the workload.
func behaviour(o render.Object, name string) string {
	return cmp.Or(render.String(o.Fields, "spec", "template", "metadata", "annotations", name), o.Annotation(name))
}

func templateLabel(o render.Object, name string) string {
	return render.String(o.Fields, "spec", "template", "metadata", "labels", name)
}

func hashOf(values ...any) string {
	text, err := json.Marshal(values) // JSON sorts keys, so equal templates give equal bytes
	if err != nil {
		return "" // the values came from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// images returns the images of a workload's or pod's containers in their order.
func images(o render.Object) []string {
	var out []string
	for _, spec := range [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}} {
		for _, kind := range []string{"initContainers", "containers"} {
			list, _ := render.Dig(o.Fields, append(slices.Clone(spec), kind)...).([]any)
			for _, c := range list {
				m, _ := c.(map[string]any)
				if image := render.String(m, "image"); image != "" {
					out = append(out, image)
				}
			}
		}
	}
	return out
}

// tagOf returns the tag, or else the digest, of the last image (that of a container, not an init container).
func tagOf(images []string) string {
	if len(images) == 0 {
		return ""
	}
	image, digest, _ := strings.Cut(images[len(images)-1], "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[i+1:]
	}
	return digest
}

// watchWorkload plans a look at a workload for when it changes by itself. The caller holds c.mu.
func (c *Cluster) watchWorkload(key render.Key, now time.Time) {
	l, ok := c.objects[key]
	if !ok {
		return
	}
	when, changes := l.nextChange(now, c.timings)
	name := "workload " + key.String()
	delete(c.schedule, name) // what was planned belongs to an earlier rollout
	if !changes {
		return
	}
	c.at(name, when, func(context.Context) {
		c.mu.Lock()
		defer c.mu.Unlock()
		l, ok := c.objects[key]
		if !ok {
			return
		}
		now := c.clock.Now()
		if a, owned := c.apps[l.Owner]; owned {
			c.refresh(a, now, levelLive)
		}
		c.watchWorkload(key, now)
	})
}

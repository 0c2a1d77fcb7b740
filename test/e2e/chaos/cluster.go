// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package chaos

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// sight is what the cluster and its cloud are at one moment.
type sight struct {
	problems []string // why it is not at rest, one sentence each
	marks    string   // equal as long as nothing is moved, launched, ended, or marked
}

// look asks the API server and the simulated cloud. An error: one of them did not answer.
func (s *Series) look(ctx context.Context) (sight, error) {
	pods, err := s.sb.Kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return sight{}, err
	}
	nodes, err := s.sb.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return sight{}, err
	}
	claims, err := sandbox.Get[karpv1.NodeClaimList](ctx, s.sb, "/apis/karpenter.sh/v1/nodeclaims")
	if err != nil {
		return sight{}, err
	}
	instances, err := s.sb.Instances(ctx)
	if err != nil {
		return sight{}, err
	}
	l := &looker{marks: map[string]string{}}
	l.pods(pods.Items, s.want())
	l.nodes(nodes.Items)
	machineOf := map[string]string{}
	for _, in := range instances {
		if other := machineOf[in.ClaimUID]; other != "" {
			l.problem("instances %s and %s are both of NodeClaim %s", other, in.ID, in.ClaimName)
		}
		machineOf[in.ClaimUID] = in.ProviderID
	}
	l.claims(claims.Items, nodes.Items, machineOf)
	var marks []string
	for _, k := range slices.Sorted(maps.Keys(l.marks)) {
		marks = append(marks, k+" "+l.marks[k])
	}
	return sight{problems: l.problems, marks: strings.Join(marks, "\n")}, nil
}

// looker collects what is wrong, and what would change with a move.
type looker struct {
	problems []string
	marks    map[string]string
}

func (l *looker) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

func (l *looker) pods(pods []corev1.Pod, want map[string]int) {
	running := map[string]int{}
	for _, p := range pods {
		l.marks["pod "+string(p.UID)] = fmt.Sprint(p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp != nil)
		switch {
		case p.DeletionTimestamp != nil:
			l.problem("pod %s is being deleted", p.Name)
		case p.Status.Phase != corev1.PodRunning:
			l.problem("pod %s is %s (node %q)", p.Name, p.Status.Phase, p.Spec.NodeName)
		default:
			running[p.Labels["app"]]++
		}
	}
	for _, app := range slices.Sorted(maps.Keys(want)) {
		if running[app] != want[app] {
			l.problem("%d pods of %s run, %d are wanted", running[app], app, want[app])
		}
	}
}

func (l *looker) nodes(nodes []corev1.Node) {
	for _, n := range nodes {
		var taints []string
		for _, t := range n.Spec.Taints {
			if t.Key != briefTaint {
				taints = append(taints, t.Key+"="+t.Value)
			}
		}
		l.marks["node "+string(n.UID)] = fmt.Sprint(taints, n.Spec.Unschedulable, n.DeletionTimestamp != nil)
		if len(taints) > 0 || n.Spec.Unschedulable {
			l.problem("node %s keeps pods out: taints %v, unschedulable %t", n.Name, taints, n.Spec.Unschedulable)
		}
		if n.DeletionTimestamp != nil {
			l.problem("node %s is being deleted", n.Name)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				l.problem("node %s is not Ready", n.Name)
			}
		}
	}
}

// claims holds each claim against its node and its instance, both of which must have it.
func (l *looker) claims(claims []karpv1.NodeClaim, nodes []corev1.Node, machineOf map[string]string) {
	nodeOf := map[string]string{}
	for _, n := range nodes {
		nodeOf[n.Spec.ProviderID] = n.Name
	}
	for _, c := range claims {
		conditions := map[string]metav1.Condition{}
		for _, x := range c.Status.Conditions {
			conditions[x.Type] = x
		}
		l.marks["claim "+string(c.UID)] = fmt.Sprint(c.DeletionTimestamp != nil, c.Annotations["dovetail.sh/move"])
		if c.DeletionTimestamp != nil {
			l.problem("NodeClaim %s is being deleted", c.Name)
		}
		if move := c.Annotations["dovetail.sh/move"]; move != "" {
			l.problem("NodeClaim %s is part of a disruption command: %s", c.Name, move)
		}
		for _, never := range []string{karpv1.ConditionDisruptionReason, "Drifted", "Drained", "InstanceTerminating"} {
			if x := conditions[never]; x.Status == metav1.ConditionTrue {
				l.problem("NodeClaim %s has the condition %s (%s)", c.Name, never, x.Reason)
			}
		}
		if conditions["Ready"].Status != metav1.ConditionTrue {
			l.problem("NodeClaim %s is not Ready", c.Name)
		}
		id := c.Status.ProviderID
		if machineOf[string(c.UID)] != id || id == "" {
			l.problem("NodeClaim %s is of instance %q, and the cloud has %q for it", c.Name, id, machineOf[string(c.UID)])
		}
		if nodeOf[id] != c.Status.NodeName || nodeOf[id] == "" {
			l.problem("NodeClaim %s says node %q, and the instance's node is %q", c.Name, c.Status.NodeName, nodeOf[id])
		}
		delete(machineOf, string(c.UID))
		delete(nodeOf, id)
	}
	for uid, id := range machineOf {
		l.problem("instance %s has no NodeClaim (%s)", id, uid)
	}
	for id, name := range nodeOf {
		l.problem("node %s of instance %s has no NodeClaim", name, id)
	}
	slices.Sort(l.problems)
}

// Usage is what the controller that uses most has in use.
type Usage struct {
	Goroutines    float64 `json:"goroutines"`
	ResidentBytes float64 `json:"residentBytes"`
}

// usage asks each controller for its metrics, again where one is just starting.
func (s *Series) usage(ctx context.Context) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, patience())
	defer cancel()
	for {
		u, err := s.usageNow(ctx)
		if err == nil || ctx.Err() != nil {
			return u, err
		}
		wait(ctx, 250*time.Millisecond)
	}
}

func (s *Series) usageNow(ctx context.Context) (Usage, error) {
	var u Usage
	all, err := s.sb.Components(sandbox.Controller)
	if err != nil {
		return u, err
	}
	for _, c := range all {
		got, err := scrape(ctx, fmt.Sprintf("http://127.0.0.1:%d/metrics", c.Ports["metrics"]), "go_goroutines", "process_resident_memory_bytes")
		if err != nil {
			return u, fmt.Errorf("read the metrics of %s: %w", c.Name, err)
		}
		u.Goroutines, u.ResidentBytes = max(u.Goroutines, got[0]), max(u.ResidentBytes, got[1])
	}
	return u, nil
}

// scrape reads gauges without labels from a metrics page, in the order in which they are asked for. One that is missing is an error.
func scrape(ctx context.Context, url string, names ...string) ([]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	found := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || !slices.Contains(names, name) {
			continue
		}
		if found[name], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	out := make([]float64, len(names))
	for i, name := range names {
		v, ok := found[name]
		if !ok {
			return nil, fmt.Errorf("%s has no %s", url, name)
		}
		out[i] = v
	}
	return out, nil
}

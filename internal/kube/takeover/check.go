// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Finding is the result of one check before a takeover.
type Finding struct {
	OK   bool
	Text string // a sentence
	Mend string // command that solves the problem; empty: no problem
}

// right is what handing over needs to be allowed. A resource may have a subresource after a slash.
type right struct {
	group, resource string
	verbs           []string
}

// poolRights are what handing pools over needs.
var poolRights = []right{
	{karpv1.Group, "nodepools", []string{"get", "list", "create", "patch", "delete"}},
	{karpv1.Group, "nodeclaims", []string{"get", "list", "create", "patch", "delete"}},
	{karpv1.Group, "nodeclaims/status", []string{"patch"}},
	{"", "nodes", []string{"get", "patch"}},
	{"", "configmaps", []string{"get", "create", "patch"}},
	{"coordination.k8s.io", "leases", []string{"list"}},
}

// How long leases are watched before it is said that somebody is live: longer than Karpenter's lease lasts.
const leaseWatch = 20 * time.Second

// Pools returns the sorted names of the NodePools that can be transferred in this direction.
func (t *NodePools) Pools(ctx context.Context) ([]string, error) {
	list, err := t.list(ctx, "nodepools", "")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range list {
		out = append(out, textOf(p["metadata"], "name"))
	}
	entries, err := t.entries(ctx)
	if err != nil {
		return nil, err
	}
	for key := range entries { // of an earlier run, which stopped between deleting a pool and making it anew
		if name, ok := strings.CutPrefix(key, poolEntry); ok && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return nil, errNoPools
	}
	slices.Sort(out)
	return out, nil
}

// Check returns the obstacles to a takeover of NodePools, and the checks that passed. It changes nothing. own is the
// lease of Dovetail's controller, others are the lease names of other autoscalers; release checks the way back.
func (t *NodePools) Check(ctx context.Context, pools []string, own client.Lease, others []string, release bool) ([]Finding, error) {
	var out []Finding
	for _, resource := range []string{"nodepools", "nodeclaims"} {
		ok, err := t.Client.Serves(ctx, karpv1.GroupVersion, resource)
		if err != nil {
			return nil, err
		}
		if !ok {
			out = append(out, Finding{Text: "The API server doesn't serve " + resource + "." + karpv1.Group + "/v1: Karpenter is installed in part, or not at all.",
				Mend: "dovetail manifests | kubectl apply --server-side -f -"})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	missing, err := missingRights(ctx, t.Client, poolRights, t.Namespace)
	if err != nil || len(missing) > 0 {
		return missing, err // what follows reads what may not be read
	}
	out = append(out, Finding{OK: true, Text: "You have all required permissions."})
	Live, err := t.liveLeases(ctx, others, release)
	if err != nil {
		return nil, err
	}
	karpenter := slices.IndexFunc(Live, func(l string) bool { return strings.Contains(l, client.OtherLeases[0]) })
	switch {
	case len(Live) > 1:
		out = append(out, Finding{Text: "Several autoscalers are running: " + strings.Join(Live, "; ") + ". NodePools can be shared with Karpenter only.",
			Mend: "kubectl -n kube-system scale deployment cluster-autoscaler --replicas=0"})
	case release && len(Live) > 0:
		out = append(out, Finding{Text: "Another autoscaler is running: " + Live[0] + ". It would launch a second instance for each released NodeClaim.",
			Mend: "kubectl -n " + leaseNamespace(Live[0]) + " scale deployment karpenter --replicas=0"})
	case release:
		out = append(out, Finding{OK: true, Text: "No other autoscaler is running."})
	case karpenter >= 0:
		out = append(out, Finding{OK: true, Text: "Karpenter is running: " + Live[karpenter] + ". It keeps the other NodePools."})
	case len(Live) == 1:
		out = append(out, Finding{Text: "Another autoscaler is running: " + Live[0] + ". It manages no NodePools, and launches nodes for the same pods.", Mend: "kubectl -n " + leaseNamespace(Live[0]) + " scale deployment cluster-autoscaler --replicas=0"})
	default:
		out = append(out, Finding{OK: true, Text: "No other autoscaler is running."})
	}
	if !release {
		if held, err := isHeld(ctx, t.Client, own); err != nil {
			return nil, err
		} else if !held {
			out = append(out, noController(own, "launch nodes for the NodePool", t.chartValues(ctx, pools)))
		}
	}
	entries, err := t.entries(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range pools {
		if f := unfinished(name, entries, release); f != nil {
			out = append(out, *f)
			continue
		}
		found, err := t.checkPool(ctx, name, entries[poolEntry+name] != "", release)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// unfinished returns a finding that a run in the other direction was interrupted and must be completed first; nil: none
// was.
func unfinished(name string, entries map[string]string, release bool) *Finding {
	verb := ""
	if manifest := entries[poolEntry+name]; manifest != "" {
		var want rawObject
		if json.Unmarshal([]byte(manifest), &want) != nil {
			return nil // said when it is read
		}
		if _, taken := translate.ClassGroup(groupOf(want)); taken && release {
			verb = "takeover"
		} else if !taken && !release {
			verb = "release"
		}
	}
	for key, entry := range entries {
		if !release && strings.HasPrefix(key, claimEntry) && poolOfEntry(entry) == name {
			verb = "release"
		}
	}
	if verb == "" {
		return nil
	}
	return &Finding{Text: "NodePool " + name + ": an earlier dovetail " + verb + " was interrupted and must be completed first.",
		Mend: "dovetail " + verb + " --pool " + name}
}

// chartValues returns the chart's values for the cloud of NodePools, as arguments of helm. Values that only the user knows are in capitals.
func (t *NodePools) chartValues(ctx context.Context, pools []string) string {
	for _, name := range pools {
		p, err := t.get(ctx, "nodepools", name)
		if of, _ := translate.ClassGroup(groupOf(p)); err == nil && of == kwokv1alpha1.Group {
			return "--set cloud=kwok --set machines=URL"
		}
	}
	return AWSTerms().Chart
}

// checkPool checks a pool and its node class. begun says that an earlier run stopped in the middle.
func (t *NodePools) checkPool(ctx context.Context, name string, begun, release bool) ([]Finding, error) {
	raw, err := t.Client.Karpenter.Get().Resource("nodepools").Name(name).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		if begun {
			return []Finding{{OK: true, Text: "NodePool " + name + " was deleted by an interrupted run, which is completed now."}}, nil
		}
		others, err := t.list(ctx, "nodepools", "")
		if err != nil {
			return nil, err
		}
		var have []string
		for _, p := range others {
			have = append(have, textOf(p["metadata"], "name"))
		}
		return []Finding{{Text: unknownPool(name, have), Mend: "kubectl get nodepools"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read NodePool %s: %w", name, err)
	}
	var p karpv1.NodePool
	if err := json.Unmarshal(raw, &p); err != nil {
		return []Finding{{Text: "NodePool " + name + " can't be read: " + err.Error() + ".", Mend: "kubectl edit nodepool " + name}}, nil
	}
	var out []Finding
	bad := func(text, mend string) {
		out = append(out, Finding{Text: "NodePool " + name + ": " + text, Mend: mend})
	}
	if p.DeletionTimestamp != nil && !begun {
		bad("it is being deleted.", "kubectl get nodepool "+name+" -o jsonpath='{.metadata.finalizers}'")
	}
	m := (&translate.Translator{Table: state.NewResourceTable()}).NodePool(&p)
	if !m.Ready {
		bad("it is invalid: "+m.NotReady.Message+".", "kubectl edit nodepool "+name)
	}
	if v := p.Annotations[karpv1.AnnotationNodePoolHashVersion]; v != "" && v != karpv1.NodePoolHashVersion {
		bad("the running Karpenter writes template hashes of version "+v+", and Dovetail uses "+karpv1.NodePoolHashVersion+": its nodes would appear to have drifted.",
			"update Karpenter to v1.0 or later")
	}
	if translate.TakenGroups[m.ClassGroup] == "" {
		bad(fmt.Sprintf("no cloud provider of Dovetail supports its node class (kind %s, group %s).", m.ClassKind, m.ClassGroup), "kubectl get nodepool "+name+" -o yaml")
		return out, nil
	}
	if m.ClassGroup == awsv1.Group && !m.Taken && !release {
		bad("NodePools on AWS can't be taken over: Karpenter, if running or started again, would terminate the instances that Dovetail launches. "+
			"If Karpenter is stopped, Dovetail manages all NodePools as they are, without a takeover.",
			"kubectl -n kube-system scale deployment karpenter --replicas=0")
	}
	at, resource := t.Client.KWOK, "kwoknodeclasses"
	if m.ClassGroup == awsv1.Group {
		at, resource = t.Client.AWS, "ec2nodeclasses"
	}
	class, err := write.DecodeObject(at.Get().Resource(resource).Name(m.ClassName).Do(ctx).Raw())
	switch {
	case apierrors.IsNotFound(err):
		bad(m.ClassKind+" "+m.ClassName+" does not exist. Existing nodes stay; no node is launched for the NodePool until it exists.",
			"kubectl apply -f FILE (with its manifest), or reference an existing one (kubectl get "+resource+"): kubectl edit nodepool "+name)
	case apierrors.IsForbidden(err):
		bad("you may not get "+resource+"."+m.ClassGroup+".", "kubectl create clusterrolebinding dovetail-takeover --clusterrole=cluster-admin --user=YOU (as an administrator)")
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", m.ClassKind, m.ClassName, err)
	case !hasCondition(class, "Ready") && write.Field(class, "status", "conditions") != nil:
		bad(m.ClassKind+" "+m.ClassName+" is not Ready.", "kubectl describe "+resource+" "+m.ClassName)
	}
	if len(out) == 0 {
		claims, err := t.list(ctx, "nodeclaims", karpv1.LabelNodePool+"="+name)
		if err != nil {
			return nil, err
		}
		whose := "Karpenter's"
		if m.Taken {
			whose = "Dovetail's"
		}
		out = append(out, Finding{OK: true, Text: fmt.Sprintf("NodePool %s (now %s, %d NodeClaims) and %s %s passed.", name, whose, len(claims), m.ClassKind, m.ClassName)})
	}
	return out, nil
}

// unknownPool is the text for a NodePool that does not exist. It names up to three existing ones with a similar name: at
// most a third of the letters differ, or one name contains the other.
func unknownPool(name string, have []string) string {
	most := (len(name) + 1) / 3
	distance := func(other string) int {
		if strings.Contains(other, name) || strings.Contains(name, other) {
			return min(most, 1)
		}
		return model.EditDistance(name, other, most)
	}
	near := slices.DeleteFunc(slices.Sorted(slices.Values(have)), func(other string) bool { return distance(other) > most })
	slices.SortStableFunc(near, func(a, b string) int { return distance(a) - distance(b) })
	text := fmt.Sprintf("--pool %q: the cluster has no such NodePool", name)
	if len(near) == 0 {
		return text + "."
	}
	return text + "; did you mean " + strings.Join(near[:min(len(near), 3)], " or ") + "?"
}

// missingRights are findings for the rights that this identity lacks; those on ConfigMaps in a namespace.
func missingRights(ctx context.Context, c *client.Client, rights []right, namespace string) (out []Finding, err error) {
	for _, r := range rights {
		resource, sub, _ := strings.Cut(r.resource, "/")
		name := strings.TrimSuffix(resource+"."+r.group, ".")
		if sub != "" {
			name += " (" + sub + ")"
		}
		for _, verb := range r.verbs {
			attributes := &authorizationv1.ResourceAttributes{Group: r.group, Resource: resource, Subresource: sub, Verb: verb}
			if resource == "configmaps" {
				attributes.Namespace = namespace
			}
			ok, err := c.May(ctx, attributes)
			if err != nil {
				return nil, err
			}
			if !ok {
				out = append(out, Finding{Text: "You may not " + verb + " " + name + ".", Mend: "kubectl create clusterrolebinding dovetail-takeover --clusterrole=cluster-admin --user=YOU (as an administrator)"})
			}
		}
	}
	return out, nil
}

// isHeld reports whether a lease is held.
func isHeld(ctx context.Context, c *client.Client, own client.Lease) (bool, error) {
	named, err := c.LeasesNamed(ctx, []string{own.Name})
	if err != nil {
		return false, err
	}
	named = slices.DeleteFunc(named, func(l coordinationv1.Lease) bool { return l.Namespace != own.Namespace })
	return len((client.Sightings{}).Live(named, client.Lease{}, time.Now())) > 0, nil
}

// noController returns the finding that no Dovetail controller holds its lease, with the consequences and the chart
// values.
func noController(own client.Lease, what, values string) Finding {
	return Finding{Text: "No Dovetail controller holds lease " + own.Namespace + "/" + own.Name + ": nothing would " + what + ".",
		Mend: "if it runs with --leader-elect=false, as in a sandbox, add --no-controller-check. Otherwise: helm install dovetail charts/dovetail -n " + own.Namespace + " --create-namespace " + values}
}

// liveLeases are the leases of other autoscalers that are renewed, for people. With patience leases are watched until
// they are older than they last.
func (t *NodePools) liveLeases(ctx context.Context, names []string, patience bool) ([]string, error) {
	seen, began := client.Sightings{}, time.Now()
	for {
		leases, err := t.Client.LeasesNamed(ctx, names)
		if err != nil {
			return nil, err
		}
		Live := seen.Live(leases, client.Lease{}, time.Now())
		if len(Live) == 0 || !patience || time.Since(began) > leaseWatch {
			return Live, nil
		}
		if time.Since(began) < time.Second {
			t.Say("Another autoscaler holds a lease; checking for " + leaseWatch.String() + " whether it is renewed.")
		}
		if err := sleep(ctx, client.LeaseInterval); err != nil {
			return nil, err
		}
	}
}

// CheckAlone returns an error if another autoscaler is running, which is not allowed while NodePools are released.
func (t *NodePools) CheckAlone(ctx context.Context, pool string, others []string) error {
	Live, err := t.liveLeases(ctx, others, true)
	if err != nil || len(Live) == 0 {
		return err
	}
	return fmt.Errorf("NodePool %s was not released: another autoscaler was started: %s. Stop it, then run the command again: "+
		"kubectl -n %s scale deployment karpenter --replicas=0", pool, Live[0], leaseNamespace(Live[0]))
}

// leaseNamespace is the namespace in "lease NAMESPACE/NAME is held by …".
func leaseNamespace(Live string) string {
	namespace, _, _ := strings.Cut(strings.TrimPrefix(Live, "lease "), "/")
	return namespace
}

// Versions returns the images of running Karpenter deployments, for display; nil if none is found.
func (t *NodePools) Versions(ctx context.Context) []string {
	var pods corev1.PodList
	if t.Client.Core.Get().Resource("pods").Param("labelSelector", "app.kubernetes.io/name=karpenter").Do(ctx).Into(&pods) != nil {
		return nil
	}
	var out []string
	for i := range pods.Items {
		for _, c := range pods.Items[i].Spec.Containers {
			if image := c.Image; !slices.Contains(out, image) {
				out = append(out, image)
			}
		}
	}
	return out
}

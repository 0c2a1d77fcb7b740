// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Taints by which Cluster Autoscaler marks nodes that it removes or may remove.
const (
	taintToBeDeleted       = "ToBeDeletedByClusterAutoscaler"
	taintDeletionCandidate = "DeletionCandidateOfClusterAutoscaler"
)

// groupRights are what handing groups over needs.
var groupRights = []right{
	{dovetailv1alpha1.Group, "nodegroupclasses", []string{"get", "list"}},
	{karpv1.Group, "nodepools", []string{"get", "list", "patch"}},
	{karpv1.Group, "nodeclaims", []string{"get", "list", "patch", "delete"}},
	{"", "nodes", []string{"get", "list", "patch"}},
	{"apps", "deployments", []string{"list"}},
	{"coordination.k8s.io", "leases", []string{"list"}},
}

// Check returns the obstacles to a takeover of the groups of a class, and the checks that passed. It changes nothing.
// own is the lease of Dovetail's controller, others are the lease names of other autoscalers; release checks the way
// back.
func (t *NodeGroups) Check(ctx context.Context, class string, own client.Lease, others []string, release bool) ([]Finding, error) {
	missing, err := missingRights(ctx, t.Client, groupRights, "")
	if err != nil || len(missing) > 0 {
		return missing, err // what follows reads what may not be read
	}
	out := []Finding{{OK: true, Text: "You have all required permissions."}}
	h, err := t.find(ctx, class)
	if err != nil {
		return nil, err
	}
	if h.class == nil {
		return append(out, Finding{Text: "NodeGroupClass " + class + " does not exist.", Mend: "kubectl get nodegroupclasses, or dovetail convert --from cluster-autoscaler --live --apply to make one for each group"}), nil
	}
	out = append(out, t.checkClass(ctx, h)...)
	Live, err := t.liveLeases(ctx, others, false)
	if err != nil {
		return nil, err
	}
	if held, err := isHeld(ctx, t.Client, own); err != nil {
		return nil, err
	} else if !held {
		out = append(out, noController(own, "scale the groups", t.Terms.Chart))
	}
	if release {
		return out, nil
	}
	scaled, err := t.checkClusterAutoscaler(ctx, h, Live)
	return append(out, scaled...), err
}

// checkClass returns the problems of a class, its groups and its NodePools.
func (t *NodeGroups) checkClass(ctx context.Context, h *handedGroups) (out []Finding) {
	class := "NodeGroupClass " + h.class.Name
	if len(h.groups) == 0 {
		out = append(out, Finding{Text: class + " selects no group.", Mend: "kubectl describe nodegroupclass " + h.class.Name})
	}
	if len(h.pools) == 0 {
		out = append(out, Finding{Text: "No NodePool refers to " + class + ", so nothing would be launched in its groups.", Mend: "dovetail convert --from cluster-autoscaler --live --apply"})
	}
	for _, name := range h.groups {
		_, members, found, err := t.Cloud.DescribeGroup(ctx, name)
		switch {
		case err != nil:
			out = append(out, Finding{Text: fmt.Sprintf("Group %s can't be read: %v.", name, err), Mend: t.Terms.Access})
		case !found:
			out = append(out, Finding{Text: "Group " + name + " does not exist in " + t.Terms.Where + ".", Mend: "kubectl edit nodegroupclass " + h.class.Name + " (spec.selectorTerms)"})
		default:
			out = append(out, Finding{OK: true, Text: fmt.Sprintf("Group %s has %d instances and is selected by %s.", name, len(members), class)})
		}
	}
	for _, g := range h.class.Status.Groups {
		if g.Problem != "" {
			out = append(out, Finding{Text: "Group " + g.Name + ": " + g.Problem + ".", Mend: "kubectl describe nodegroupclass " + h.class.Name})
		}
	}
	return out
}

// checkClusterAutoscaler reports whether a Cluster Autoscaler still scales the groups, and how they are taken out of its
// hands.
func (t *NodeGroups) checkClusterAutoscaler(ctx context.Context, h *handedGroups, Live []string) (out []Finding, err error) {
	if !slices.ContainsFunc(Live, func(l string) bool { return strings.Contains(l, translate.ManagedByClusterAutoscaler) }) {
		return []Finding{{OK: true, Text: "No Cluster Autoscaler is running."}}, nil
	}
	runs, err := t.clusterAutoscalers(ctx)
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return []Finding{{Text: "A Cluster Autoscaler is running (" + strings.Join(Live, "; ") + "), but no Deployment with its flags was found, so it is unknown whether it scales the groups.",
			Mend: "stop it, or run it as a Deployment in this cluster"}}, nil
	}
	for _, name := range h.groups {
		tags, _, found, err := t.Cloud.DescribeGroup(ctx, name)
		if err != nil || !found {
			continue // told before
		}
		free := true
		for _, r := range runs {
			if f := r.scales(ctx, name, tags, &t.Terms); f != nil {
				out = append(out, *f)
				free = false
			}
		}
		if free {
			out = append(out, Finding{OK: true, Text: "Cluster Autoscaler is running and does not scale group " + name + "."})
		}
	}
	return out, nil
}

// runningAutoscaler is a Deployment that runs Cluster Autoscaler.
type runningAutoscaler struct {
	namespace, name string
	nodes           map[string]string   // its --nodes, by group
	sets            []map[string]string // of its --node-group-auto-discovery: the tags that a group has to have
	unread          []string            // flags of both kinds that could not be read, such as ones with a variable in them
	all             bool                // it scales all groups
}

// clusterAutoscalers are the Deployments of all namespaces that run Cluster Autoscaler.
func (t *NodeGroups) clusterAutoscalers(ctx context.Context) (out []runningAutoscaler, err error) {
	var list appsv1.DeploymentList
	if err := t.Client.Apps.Get().Resource("deployments").Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			if !strings.Contains(c.Image, "cluster-autoscaler") && !slices.ContainsFunc(c.Command, func(w string) bool { return strings.HasSuffix(w, "cluster-autoscaler") }) {
				continue
			}
			r := runningAutoscaler{namespace: d.Namespace, name: d.Name, nodes: map[string]string{}}
			r.readFlags(slices.Concat(c.Command, c.Args), &t.Terms)
			out = append(out, r)
		}
	}
	return out, nil
}

// readFlags reads which groups a command line has scaled.
func (r *runningAutoscaler) readFlags(words []string, terms *Terms) {
	discovers := false
	for i, w := range words {
		flag, value, valued := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if !strings.HasPrefix(w, "-") {
			continue
		}
		if !valued && i+1 < len(words) {
			value = words[i+1]
		}
		switch strings.ReplaceAll(flag, "_", "-") {
		case "nodes":
			if g, err := translate.ParseNodes(value); err == nil {
				r.nodes[g.Name] = value
			} else {
				r.unread = append(r.unread, "--nodes="+value)
			}
		case "node-group-auto-discovery":
			discovers = true
			if d, err := terms.discovery(value); err == nil {
				r.sets = append(r.sets, d.sets...)
				r.all = r.all || d.all
			} else {
				r.unread = append(r.unread, "--node-group-auto-discovery="+value)
			}
		}
	}
	r.all = r.all || !discovers && terms.all
}

// scales is a finding where this Cluster Autoscaler scales a group with these tags, or may do so; nil: it does not.
func (r *runningAutoscaler) scales(ctx context.Context, group string, tags map[string]string, terms *Terms) *Finding {
	who := "Cluster Autoscaler (Deployment " + r.namespace + "/" + r.name + ") scales group " + group
	if r.all {
		return &Finding{Text: who + ": it discovers all groups of the Cluster.", Mend: "let it discover groups by a label that " + group + " does not have (--node-group-auto-discovery=clusterapi:namespace=NAMESPACE,clusterName=NAME,LABEL=VALUE), or stop it: kubectl -n " + r.namespace + " scale deployment " + r.name + " --replicas=0"}
	}
	if flag, ok := r.nodes[group]; ok {
		return &Finding{Text: who + " by --nodes=" + flag + ".", Mend: "remove --nodes=" + flag + ": kubectl -n " + r.namespace + " edit deployment " + r.name}
	}
	for _, set := range r.sets {
		all, first := len(set) > 0, ""
		for key, value := range set {
			have, ok := tags[key]
			all = all && ok && (value == "" || value == have)
			if first == "" || key < first {
				first = key
			}
		}
		if all {
			return &Finding{Text: who + ": it discovers the group by " + terms.Tag + " " + first + ". " + terms.Keep, Mend: terms.Free(ctx, group, first)}
		}
	}
	if len(r.unread) > 0 {
		return &Finding{Text: "It is unknown whether Cluster Autoscaler (Deployment " + r.namespace + "/" + r.name + ") scales group " + group + ": its " + r.unread[0] + " can't be read.",
			Mend: "write the value of the flag into the manifest: kubectl -n " + r.namespace + " edit deployment " + r.name}
	}
	return nil
}

// clearLeftovers removes Cluster Autoscaler's taints from the nodes of groups, and the cordon that it sets with the
// first of them: nodes that it was about to remove stay. It returns the cleared taints by node, for display.
func (t *NodeGroups) clearLeftovers(ctx context.Context, groups []string) (out []string, err error) {
	member := map[string]bool{}
	for _, g := range groups {
		_, members, _, err := t.Cloud.DescribeGroup(ctx, g)
		if err != nil {
			return nil, err
		}
		for _, id := range members {
			member[id] = true
		}
	}
	var nodes corev1.NodeList
	if err := t.Client.Core.Get().Resource("nodes").Do(ctx).Into(&nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	left := func(x corev1.Taint) bool { return x.Key == taintToBeDeleted || x.Key == taintDeletionCandidate }
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if id := n.Spec.ProviderID; !member[id] && !member[id[strings.LastIndexByte(id, '/')+1:]] || !slices.ContainsFunc(n.Spec.Taints, left) {
			continue
		}
		err := t.changeNode(ctx, n.Name, func(n *corev1.Node) rawObject {
			removing := slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == taintToBeDeleted })
			kept := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(x corev1.Taint) bool {
				return left(x) || removing && n.Spec.Unschedulable && x.Key == corev1.TaintNodeUnschedulable
			})
			spec := rawObject{"taints": kept}
			if removing && n.Spec.Unschedulable {
				spec["unschedulable"] = nil
			}
			return rawObject{"spec": spec}
		})
		if err != nil {
			return nil, fmt.Errorf("clear taints of node %s: %w", n.Name, err)
		}
		for _, x := range n.Spec.Taints {
			if left(x) {
				out = append(out, x.Key+" of "+n.Name)
			}
		}
	}
	return out, nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// doctorCodes are all codes of findings.
var doctorCodes = []doctor.Code{
	doctor.PodDoNotDisrupt, doctor.SafeToEvict, doctor.NoController, doctor.PDBNeverAllows, doctor.PDBUnhealthy, doctor.SeveralPDBs, doctor.NodeDoNotDisrupt,
	doctor.BudgetZero, doctor.BudgetUnreadable, doctor.ConsolidationOff, doctor.ConsolidateNever, doctor.StaticPool, doctor.NodeWithoutPool, doctor.PinnedToNode,
	doctor.Unplaceable, doctor.LimitReached, doctor.LimitBlocks, doctor.LimitNear, doctor.QuotaCosts, doctor.ResourceQuotaFull, doctor.CloudQuotaReached, doctor.GroupAtMaximum, doctor.GroupFull, doctor.PoolBuysNothing, doctor.PoolNotReady, doctor.UnusedLaunches, doctor.DriftBackOff, doctor.OverlappingPools,
	doctor.SpotNeverAllowed, doctor.FewTypes, doctor.OnePerNode, doctor.NodeNotReady, doctor.NodeCordoned, doctor.NodeEmpty, doctor.ClaimStuck, doctor.DeletionStuck,
	doctor.NoRequests, doctor.SingleReplica, doctor.PriceUnknown, doctor.TwoAutoscalers, doctor.MissingRights, doctor.WriteDenied,
}

// DoctorCodes are all codes of findings.
func DoctorCodes() []doctor.Code { return doctorCodes }

// DoctorSentence says what was found.
func DoctorSentence(f *doctor.Finding) string {
	return doctorSentence(f) + heldDrains(f)
}

// heldDrains says which nodes a finding keeps from being drained, and what they cost; empty: none.
func heldDrains(f *doctor.Finding) string {
	if len(f.Draining) == 0 {
		return ""
	}
	which := "one of these nodes"
	switch n := len(f.Draining); {
	case n == len(f.Nodes) && n == 1:
		which = "this node"
	case n == len(f.Nodes):
		which = "these nodes"
	case n > 1:
		which = strconv.Itoa(n) + " of these nodes"
	}
	return " The drain of " + which + with(" (", monthly(f.DrainingMicro), ")") + " can't finish until that changes."
}

// monthly writes micro-dollars an hour as dollars a month, with the words; empty: nothing.
func monthly(micro int64) string {
	if micro == 0 {
		return ""
	}
	return perMonth(micro) + " a month"
}

func doctorSentence(f *doctor.Finding) string {
	who, pods := doctorObject(f.Subject), model.Count(len(f.Pods), "pod")
	nodes := model.Count(len(f.Nodes), "node")
	switch f.Code {
	case doctor.PodDoNotDisrupt, doctor.SafeToEvict:
		return fmt.Sprintf("%s: annotation %s=%s on %s prevents consolidation of %s.", who, f.Key, f.Have, pods, nodes)
	case doctor.NoController:
		return fmt.Sprintf("%s has no controller that would recreate it, so its node is kept.", who)
	case doctor.PDBNeverAllows:
		return fmt.Sprintf("%s never allows an eviction: %s is %s; %s on %s can't be rescheduled.", who, f.Key, f.Have, pods, nodes)
	case doctor.PDBUnhealthy:
		return fmt.Sprintf("%s allows no eviction while pods are unhealthy (%s); it prevents consolidation of %s.", who, f.Have, nodes)
	case doctor.SeveralPDBs:
		return fmt.Sprintf("%s: %s PodDisruptionBudgets select the same pods (%s), so the eviction API refuses to evict them; this blocks %s.", who, f.Have, strings.ReplaceAll(f.Key, " ", ", "), nodes)
	case doctor.NodeDoNotDisrupt:
		return fmt.Sprintf("%s: annotation %s=%s prevents consolidation of %s.", who, f.Key, f.Have, nodes)
	case doctor.BudgetZero:
		return fmt.Sprintf("%s allows no consolidation: nodes is 0 in %s.", who, f.Key)
	case doctor.BudgetUnreadable:
		return fmt.Sprintf("%s: the schedule %q of %s is not a valid cron expression, so no node is disrupted.", who, f.Have, f.Key)
	case doctor.ConsolidationOff:
		return fmt.Sprintf("%s: %s is %s, so nodes with pods are never consolidated.", who, f.Key, f.Have)
	case doctor.ConsolidateNever:
		return fmt.Sprintf("%s: %s is Never, so its %s %s not consolidated.", who, f.Key, nodes, pick(len(f.Nodes), "is", "are"))
	case doctor.StaticPool:
		return fmt.Sprintf("%s has a fixed number of nodes (spec.replicas: %s), which are never consolidated. A lower number removes those whose removal disrupts least.", who, f.Have)
	case doctor.NodeWithoutPool:
		return fmt.Sprintf("%s: %s without a NodePool, which %s never consolidated.", who, nodes, pick(len(f.Nodes), "is", "are"))
	case doctor.PinnedToNode:
		return fmt.Sprintf("%s selects node %s by name, so that node is kept.", who, f.Have)
	case doctor.NodeNotReady:
		return fmt.Sprintf("%s is not Ready and still costs money: %s.", who, strings.TrimSuffix(f.Have, "."))
	case doctor.NodeCordoned:
		return fmt.Sprintf("%s is cordoned%s: it costs money and accepts no new pods.", who, with(" and has taint ", strings.TrimPrefix(f.Have, "true"), ""))
	case doctor.NodeEmpty:
		return fmt.Sprintf("%s runs %s.", who, cmp.Or(with("only ", f.Have, " pods"), "no pods"))
	case doctor.ClaimStuck:
		return fmt.Sprintf("%s has no node after 15 minutes: condition %s is not True (%s).", who, f.Key, strings.TrimSuffix(f.Have, "."))
	case doctor.DeletionStuck:
		return fmt.Sprintf("%s has been draining since %s%s.", who, f.Have, with("; ", blockedPods(len(f.Pods)), ""))
	}
	return doctorSentenceOfPools(f, who, pods, nodes)
}

// doctorSentenceOfPools says findings about pools, workloads and the cluster.
func doctorSentenceOfPools(f *doctor.Finding, who, pods, nodes string) string {
	switch f.Code {
	case doctor.Unplaceable:
		return fmt.Sprintf("%s: no node can be launched for %s: %s", who, pods, with("NodePool ", f.Reason.Pool, ": ")+Sentence(f.Reason))
	case doctor.LimitReached:
		return fmt.Sprintf("%s has reached its limit (%s): %s pending.", who, f.Key, pods)
	case doctor.LimitBlocks:
		limits, left := limitsOf(f)
		n := len(f.Others) + 1
		return fmt.Sprintf("The %s of %s %s %s, which is too little for replacements: they are launched before the nodes that they replace are deleted.%s",
			pick(n, "limit", "limits"), limits, pick(n, "leaves", "leave"), left, pick(n, "", " Raising one alone saves nothing."))
	case doctor.LimitNear:
		return fmt.Sprintf("%s has nearly reached its limit (%s: %s).", who, f.Key, f.Have)
	case doctor.QuotaCosts:
		return fmt.Sprintf("%s (%s) keeps %s from cheaper nodes.", who, f.Key, pods)
	case doctor.ResourceQuotaFull:
		return fmt.Sprintf("%s is used up (%s: %s): further pods are refused before a node could be launched for them.", who, f.Key, f.Have)
	case doctor.CloudQuotaReached:
		return fmt.Sprintf("EC2 quota reached: %s%s. Launches fail because of it, most recently %s.", strings.TrimPrefix(f.Subject, "cloudquota/"), with(" (", f.Have, ")"), doctorObject(f.Key))
	case doctor.GroupAtMaximum:
		return fmt.Sprintf("%s is at its maximum size (%s): %s pending.", who, f.Have, pods)
	case doctor.GroupFull:
		return fmt.Sprintf("%s is at its maximum size (%s): the next pod that needs one of its nodes stays pending.", who, f.Have)
	case doctor.PoolBuysNothing:
		return fmt.Sprintf("%s can launch nothing: no instance type meets its requirements%s.", who, with(" (", f.Have, ")"))
	case doctor.PoolNotReady:
		return fmt.Sprintf("%s is not Ready: %s.", who, strings.TrimSuffix(f.Have, "."))
	case doctor.UnusedLaunches:
		return fmt.Sprintf("%s launches nodes that no pod runs on: %s.", who, strings.TrimSuffix(f.Have, "."))
	case doctor.DriftBackOff:
		return fmt.Sprintf("Drifted nodes of %s are not replaced at once: %s. Find out what changes the NodePool or its node class.", who, strings.TrimSuffix(f.Have, "."))
	case doctor.OverlappingPools:
		return fmt.Sprintf("%s and %s have the same weight and may launch the same nodes for the same pods: only the price decides between them.", who, doctorObject(f.Have))
	case doctor.SpotNeverAllowed:
		return "No NodePool allows spot nodes."
	case doctor.FewTypes:
		return fmt.Sprintf("%s allows only %s of the available instance types; others are cheaper for these pods.", who, f.Have)
	case doctor.OnePerNode:
		return fmt.Sprintf("%s: required anti-affinity gives each of its %s a node of its own.", who, pods)
	case doctor.NoRequests:
		return fmt.Sprintf("%s requests no %s (%s): nodes are sized as if it needed none.", who, f.Key, pods)
	case doctor.SingleReplica:
		more := ""
		if claim, shared := strings.CutPrefix(f.Have, "persistentvolumeclaim/"); shared {
			more = " A second pod can't run on another node: the access mode of PVC " + claim + " does not allow it."
		}
		return fmt.Sprintf("%s has one pod: it is down while the pod is rescheduled.%s", who, more)
	case doctor.PriceUnknown:
		return fmt.Sprintf("Instance type %s has no known price (%s).", f.Have, nodes)
	case doctor.TwoAutoscalers:
		if f.Have == "Dovetail" {
			return strings.TrimPrefix(f.Subject, "autoscaler/") + " runs next to Dovetail. Unless Dovetail was started with --ignore-other-autoscalers, it is passive: it manages only NodePools that were taken over."
		}
		return fmt.Sprintf("%s runs next to %s: both may launch and remove the same nodes.", strings.TrimPrefix(f.Subject, "autoscaler/"), f.Have)
	case doctor.WriteDenied:
		more := ""
		if n, err := strconv.Atoi(f.Key); err == nil && n > 1 {
			more = fmt.Sprintf(" (and %d others)", n-1)
		}
		return fmt.Sprintf("%s%s: %s.", who, more, strings.TrimSuffix(f.Have, "."))
	case doctor.MissingRights:
		return fmt.Sprintf("%s could not be read (%s) and are treated as empty.", strings.TrimPrefix(f.Subject, "resource/"), f.Have)
	}
	return string(f.Code) + " " + f.Subject
}

func blockedPods(n int) string {
	if n == 0 {
		return ""
	}
	return model.Count(n, "pod") + " may not be evicted"
}

// doctorObject writes an object as people say it.
func doctorObject(subject string) string {
	kind, name, _ := strings.Cut(subject, "/")
	for _, k := range [...][2]string{{"statefulset", "StatefulSet"}, {"replicaset", "ReplicaSet"}, {"job", "Job"}} {
		if kind == k[0] {
			return k[1] + " " + name
		}
	}
	return objectName(plan.Object(subject))
}

// Commands are commands that make the changes of a finding in the cluster that was examined; one that begins with # says what to edit by hand.
func (d *Doctor) Commands(f *doctor.Finding) (out []string) {
	kubectl := ShellLine(append([]string{"kubectl"}, d.Flags.Kubectl...)) + " "
	for i := 0; i < len(f.Changes); i++ {
		c := f.Changes[i]
		if pods := annotatedPods(f.Changes[i:]); pods > 1 {
			out = append(out, kubectl+withoutAnnotation(f.Changes[i:i+pods]))
			i += pods - 1
			continue
		}
		if i+1 < len(f.Changes) {
			if patch, ok := jointPatch(c, f.Changes[i+1]); ok {
				out = append(out, kubectl+patch)
				i++
				continue
			}
		}
		if d.OwnTypes || d.NoTypes { // nodes are of another cloud than the catalog
			if name, ok := strings.CutPrefix(c.Object, "nodegroup/"); ok {
				out = append(out, raiseByHand+name)
				continue
			}
			if c.Object == "catalog" {
				out = append(out, "# add the price of "+c.Value+" to a price file: --price-file FILE")
				continue
			}
		}
		parts := strings.Split(doctorCommand(f, c), " && ")
		for i, part := range parts {
			if rest, ok := strings.CutPrefix(part, "kubectl "); ok {
				parts[i] = kubectl + rest
			}
		}
		out = append(out, strings.Join(parts, " && ")+with(" # ", driftText(c), ""))
	}
	return out
}

// annotatedPods counts the changes at the beginning of a list that take the same annotation off pods of the same namespace.
func annotatedPods(changes []plan.Change) (n int) {
	namespace := func(c plan.Change) string { return c.Object[:strings.LastIndex(c.Object, "/")+1] }
	for _, c := range changes {
		if !strings.HasPrefix(c.Object, "pod/") || !strings.HasPrefix(c.Field, "metadata.annotations[") || c.Op != plan.Remove || c.Field != changes[0].Field || namespace(c) != namespace(changes[0]) {
			break
		}
		n++
	}
	return n
}

// withoutAnnotation is one command that takes an annotation off pods of a namespace.
func withoutAnnotation(changes []plan.Change) string {
	names := make([]string, 0, len(changes))
	namespace := ""
	for _, c := range changes {
		own, name, _ := strings.Cut(strings.TrimPrefix(c.Object, "pod/"), "/")
		namespace, names = own, append(names, name)
	}
	key := strings.TrimSuffix(strings.TrimPrefix(changes[0].Field, "metadata.annotations["), "]")
	return "-n " + namespace + " annotate pod " + strings.Join(names, " ") + " " + key + "-"
}

// raiseByHand says what to do about a node group that is full, without its name.
const raiseByHand = "# raise the maximum size of node group "

// jointPatch is one command for two changes that the API server takes together only: a PodDisruptionBudget has one of the two fields. False: they are no
// such changes.
func jointPatch(a, b plan.Change) (string, bool) {
	kind, name, _ := strings.Cut(a.Object, "/")
	namespace, name, ok := strings.Cut(name, "/")
	if !ok || kind != "poddisruptionbudget" || a.Object != b.Object || a.Op != plan.Set || b.Op != plan.Remove {
		return "", false
	}
	patch, ok := mergePatch(a, b)
	return "-n " + namespace + " patch " + kind + " " + name + " --type merge -p '" + patch + "'", ok
}

func doctorCommand(f *doctor.Finding, c plan.Change) string {
	kind, name, _ := strings.Cut(c.Object, "/")
	namespace := ""
	if ns, own, ok := strings.Cut(name, "/"); ok {
		namespace, name = "-n "+ns+" ", own
	}
	switch kind {
	case "nodegroup":
		n, err := strconv.Atoi(f.Have)
		if err != nil {
			return raiseByHand + name
		}
		return fmt.Sprintf("aws autoscaling update-auto-scaling-group --auto-scaling-group-name %s --max-size %d", name, n+1)
	case "autoscaler":
		ns, _, _ := strings.Cut(f.Key, "/")
		return fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=0", ns, strings.ReplaceAll(strings.ToLower(name), " ", "-"))
	case "clusterrole":
		resource := strings.TrimPrefix(c.Value, "list ")
		short, _, _ := strings.Cut(resource, ".")
		return fmt.Sprintf("kubectl create clusterrole %s-%s --verb=get,list,watch --resource=%s", name, short, resource)
	case "cloudquota":
		return "# request an increase of " + strings.TrimPrefix(c.Object, "cloudquota/") + " in Service Quotas"
	case "writes":
		if strings.Contains(c.Value, " cannot ") { // the API server's own authorization
			return "# grant Dovetail's ServiceAccount this right, as the chart's ClusterRole does"
		}
		return "# exempt Dovetail's ServiceAccount from the policy or webhook that refuses this, or change its rule"
	case "catalog":
		return "# use a catalog that has " + c.Value + ": --catalog FILE"
	}
	target := kind + " " + name
	annotation, isAnnotation := strings.CutPrefix(c.Field, "metadata.annotations[")
	annotation = strings.TrimSuffix(annotation, "]")
	switch {
	case c.Field == "" && c.Op == plan.Add:
		return "# create " + kind + " " + name
	case c.Field == "" && kind == "node":
		return "kubectl drain " + name + " --ignore-daemonsets && kubectl delete node " + name + " # then terminate its instance, or lower the size of its group"
	case c.Field == "":
		return "kubectl " + namespace + "delete " + target
	case kind == "node" && c.Field == "spec.unschedulable":
		return "kubectl uncordon " + name
	case kind == "node" && strings.HasPrefix(c.Field, "spec.taints[") && c.Op == plan.Remove:
		return "kubectl taint nodes " + name + " " + strings.TrimSuffix(strings.TrimPrefix(c.Field, "spec.taints["), "]") + "-"
	case isAnnotation && c.Op == plan.Remove:
		return "kubectl " + namespace + "annotate " + target + " " + annotation + "-"
	case isAnnotation:
		return "kubectl " + namespace + "annotate " + target + " " + annotation + "=" + c.Value
	case c.Field == "spec.replicas" && c.Op == plan.Set:
		return "kubectl " + namespace + "scale " + target + " --replicas=" + c.Value
	}
	if resource, ok := strings.CutPrefix(c.Field, "spec.template.spec.containers[*].resources.requests."); ok {
		return "kubectl " + namespace + "set resources " + target + " --requests=" + resource + "=" + c.Value
	}
	if i, field, ok := budgetField(c.Field); ok {
		op := fmt.Sprintf(`{"op":"replace","path":"/spec/disruption/budgets/%s/%s","value":%q}`, i, field, c.Value)
		if c.Op == plan.Remove {
			op = fmt.Sprintf(`{"op":"remove","path":"/spec/disruption/budgets/%s/%s"}`, i, field)
		}
		return "kubectl patch " + target + " --type json -p '[" + op + "]'"
	}
	if patch, ok := mergePatch(c); ok {
		return "kubectl " + namespace + "patch " + target + " --type merge -p '" + patch + "'"
	}
	return "kubectl " + namespace + "edit " + target + " # " + change(plan.Change{Object: "at", Field: c.Field, Op: c.Op, Value: c.Value})[len("at "):]
}

// budgetField takes the number of a disruption budget and its field out of a field's path.
func budgetField(path string) (number, field string, ok bool) {
	rest, ok := strings.CutPrefix(path, "spec.disruption.budgets[")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "].")
}

// mergePatch is changes of one object as a JSON merge patch; false: one is within a list.
func mergePatch(changes ...plan.Change) (string, bool) {
	root := map[string]any{}
	for _, c := range changes {
		keys, ok := pathKeys(c.Field)
		if c.Op == plan.Add || !ok || len(keys) == 0 {
			return "", false
		}
		parents, last := keys[:len(keys)-1], keys[len(keys)-1]
		at := root
		for _, key := range parents {
			below, is := at[key].(map[string]any)
			if !is {
				below = map[string]any{}
				at[key] = below
			}
			at = below
		}
		at[last] = nil
		if c.Op == plan.Set {
			at[last] = c.Value
			if n, err := strconv.Atoi(c.Value); err == nil && (last == "weight" || last == "maxUnavailable" || last == "minAvailable") {
				at[last] = n
			}
		}
	}
	raw, err := json.Marshal(root)
	return string(raw), err == nil
}

// pathKeys splits a field's path, as spec.template.metadata.annotations[a.b/c], into the keys of maps; false: it goes
// through a list.
func pathKeys(path string) (keys []string, ok bool) {
	for _, of := range [][]string{{"spec", "limits", "resources"}, {"spec", "limits"}, {"spec", "hard"}} { // resources have dots in their names
		if resource, is := strings.CutPrefix(path, strings.Join(of, ".")+"."); is {
			return append(of, resource), true
		}
	}
	for path != "" {
		at := strings.IndexAny(path, ".[")
		if at < 0 {
			return append(keys, path), true
		}
		name, rest, key := path[:at], path[at+1:], ""
		keys = append(keys, name)
		if path[at] == '.' {
			path = rest
			continue
		}
		if name != "annotations" && name != "labels" && name != "nodeSelector" {
			return nil, false
		}
		key, path, _ = strings.Cut(rest, "]")
		keys, path = append(keys, key), strings.TrimPrefix(path, ".")
	}
	return keys, true
}

// perMonth writes micro-dollars an hour as dollars a month: whole dollars from ten on.
func perMonth(micro int64) string {
	cents := micro * doctor.HoursPerMonth / 10_000
	if cents < 1000 {
		return fmt.Sprintf("$%d.%02d", cents/100, cents%100)
	}
	digits := strconv.FormatInt((cents+50)/100, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return "$" + digits
}

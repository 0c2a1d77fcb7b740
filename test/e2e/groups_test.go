// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const groupClasses = "/apis/dovetail.sh/v1alpha1/nodegroupclasses"

// Auto Scaling groups in the whole product. The tests share a sandbox, each has groups of its own, and its pods select these groups' nodes.
// In the end every machine is given back, no group has more than its minimum, and each machine that was ever started had a claim of its own.
func TestGroups(t *testing.T) {
	t.Parallel()
	found := awstest.Group{Name: "found", Max: 5, InstanceTypes: []string{"c5.large"}, Suspended: []string{"AZRebalance"}, Tags: append(nodesOf("found"),
		awstest.GroupTag{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"}, awstest.GroupTag{Key: "k8s.io/cluster-autoscaler/sandbox", Value: "owned"})}
	file := filepath.Join(t.TempDir(), "groups.json")
	text, err := json.Marshal([]awstest.Group{found, managedGroup()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := onEC2(t, "--groups="+file, "--controller-arg", "--node-group-defaults=--scale-down-unneeded-time=1s --scale-down-delay-after-add=0s --scale-down-delay-after-failure=0s")
	t.Run("killed", func(t *testing.T) { groupsKilled(t, s) })
	t.Run("together", func(t *testing.T) {
		t.Run("found", func(t *testing.T) { t.Parallel(); groupsFound(t, s) })
		t.Run("both", func(t *testing.T) { t.Parallel(); groupsAndFleet(t, s) })
		t.Run("adopted", func(t *testing.T) { t.Parallel(); groupsAdopted(t, s) })
		t.Run("full", func(t *testing.T) { t.Parallel(); groupsFull(t, s) })
		t.Run("never joins", func(t *testing.T) { t.Parallel(); groupNeverJoins(t, s) })
		t.Run("managed", func(t *testing.T) { t.Parallel(); groupsManaged(t, s) })
	})
	e := &env{t: t, ctx: t.Context(), s: s}
	e.until("every machine is given back", func() error {
		b, err := e.books(e.ctx)
		if err == nil && len(b.Alive) > 0 {
			err = fmt.Errorf("%d are left, such as %+v", len(b.Alive), b.Alive[0])
		}
		return err
	})
	b, err := e.books(e.ctx)
	e.must(err)
	if len(b.Twice) > 0 || b.Started != len(b.Launches) || b.Started == 0 {
		t.Errorf("%d machines were started for %d claims; twice for %v", b.Started, len(b.Launches), b.Twice)
	}
	for _, g := range e.groups() {
		if g.Desired != g.Min || len(g.Members) != g.Min {
			t.Errorf("group %s has %d members and should have %d; its minimum is %d", g.Name, len(g.Members), g.Desired, g.Min)
		}
	}
}

// nodesOf has a group's nodes hold the pods of a test, also as they are planned.
func nodesOf(test string) []awstest.GroupTag {
	return []awstest.GroupTag{{Key: dovetailv1alpha1.TagNodeTemplateLabel + testLabel, Value: test}}
}

// group makes or changes a group whose nodes hold the test's pods.
func (e *env) group(name, instanceType string, change func(*awstest.Group)) {
	e.t.Helper()
	g := awstest.Group{Name: name, Max: 30, InstanceTypes: []string{instanceType}, Suspended: []string{"AZRebalance"}, Tags: nodesOf(e.name), DesiredLeftAsItIs: true}
	if change != nil {
		change(&g)
	}
	e.must(e.s.AWS(e.ctx, http.MethodPut, "/_aws/groups", g, nil))
}

func (e *env) groups() []awstest.GroupSeen {
	e.t.Helper()
	var list awstest.GroupList
	e.must(e.s.AWS(e.ctx, http.MethodGet, "/_aws/groups", nil, &list))
	return list.Groups
}

func (e *env) groupNamed(name string) awstest.GroupSeen {
	e.t.Helper()
	all := e.groups()
	i := slices.IndexFunc(all, func(g awstest.GroupSeen) bool { return g.Name == name })
	if i < 0 {
		e.t.Fatalf("there is no group %s", name)
	}
	return all[i]
}

// desired is what a group's desired capacity ever was, in order, by the journal.
func (e *env) desired(group string) []int {
	e.t.Helper()
	records, err := e.s.Journal(e.ctx)
	e.must(err)
	var out []int
	for _, r := range records {
		var note struct {
			Kind, Key string
			Value     struct{ Desired int }
		}
		if len(r.Data) > 0 {
			e.must(json.Unmarshal(r.Data, &note))
		}
		if note.Kind == "group" && note.Key == group && (len(out) == 0 || out[len(out)-1] != note.Value.Desired) {
			out = append(out, note.Value.Desired)
		}
	}
	if len(out) == 0 {
		e.t.Fatalf("the journal says nothing of group %s", group)
	}
	return out
}

// fromGroups makes a class of groups, and the test's pool on it.
func (e *env) fromGroups(set map[string]any, groups ...string) {
	e.t.Helper()
	var terms []string
	for _, g := range groups {
		terms = append(terms, fmt.Sprintf("{name: %s}", g))
	}
	e.must(e.s.Create(e.ctx, groupClasses, fmt.Sprintf("{apiVersion: dovetail.sh/v1alpha1, kind: NodeGroupClass, metadata: {name: %s}, spec: {selectorTerms: [%s]}}",
		e.name, strings.Join(terms, ", "))))
	all := map[string]any{
		"spec.template.spec.nodeClassRef": map[string]any{"group": "dovetail.sh", "kind": "NodeGroupClass", "name": e.name}, "spec.template.spec.requirements": []any{},
	}
	for k, v := range set {
		all[k] = v
	}
	e.nodePool(all)
}

// membersAre waits until a group has this many members, desired as many, and each is the machine of a claim of its own.
func (e *env) membersAre(group string, n int) []karpv1.NodeClaim {
	e.t.Helper()
	var of []karpv1.NodeClaim
	e.until(fmt.Sprintf("group %s has %d members, each with its claim", group, n), func() error {
		g := e.groupNamed(group)
		if g.Desired != n || len(g.Members) != n {
			return fmt.Errorf("it has %d and should have %d", len(g.Members), g.Desired)
		}
		of = slices.DeleteFunc(e.claims(), func(c karpv1.NodeClaim) bool { return c.Labels[dovetailv1alpha1.LabelNodeGroup] != group })
		var have []string
		for _, c := range of {
			have = append(have, c.Status.ProviderID[strings.LastIndexByte(c.Status.ProviderID, '/')+1:])
		}
		slices.Sort(have)
		if !slices.Equal(have, g.Members) {
			return fmt.Errorf("its members are %v, the claims' machines %v", g.Members, have)
		}
		return nil
	})
	return of
}

// A group that bears the tags is found. Pending pods raise its desired capacity, its members become their claims' and
// their nodes; when the pods go, the machines go one by one by their id, and the group wants as many fewer.
func groupsFound(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "found")
	e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionTrue)
	e.deploy("web", 2, e.pod("1500m", "1Gi"))
	e.podsRun(2)
	e.claimsAre(2, "Ready", ready)
	for _, c := range e.membersAre("found", 2) {
		n := e.node(c.Status.NodeName)
		if n.Labels[dovetailv1alpha1.LabelNodeGroup] != "found" || n.Labels[karpv1.LabelNodePool] != "found" || n.Spec.ProviderID != c.Status.ProviderID {
			t.Errorf("node %s is %s with the labels %v; its claim's machine is %s", n.Name, n.Spec.ProviderID, n.Labels, c.Status.ProviderID)
		}
	}
	e.must(s.Delete(e.ctx, "/apis/apps/v1/namespaces/"+e.name+"/deployments", ""))
	e.until("machines and claims are gone", func() error {
		if c, g := e.claims(), e.groupNamed("found"); len(c)+len(g.Members)+g.Desired > 0 {
			return fmt.Errorf("%d claims, %d members of %d", len(c), len(g.Members), g.Desired)
		}
		return nil
	})
	// Two plans if the pods came apart; the machines go one by one.
	if have := e.desired("found"); !slices.Equal(have, []int{0, 2, 1, 0}) && !slices.Equal(have, []int{0, 1, 2, 1, 0}) {
		t.Errorf("its desired capacity was %v in turn, want 0, 2 and then one less for each machine", have)
	}
}

// Two groups and a NodePool that buys from EC2 itself: each pod's machine comes from where it is cheapest, which is the first group as
// far as it goes and then EC2. The dearer group is left alone.
func groupsAndFleet(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "both")
	e.group("cheap", "c5.large", func(g *awstest.Group) { g.Max = 3 }) // $0.085 an hour
	e.group("dear", "c5n.large", nil)                                  // $0.108
	e.otherPool("both-fleet", map[string]any{                          // $0.096
		"spec.template.spec.nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
		"spec.template.spec.requirements": only("m5.large"), "spec.template.metadata.labels": map[string]any{testLabel: e.name},
	})
	e.fromGroups(nil, "cheap", "dear")
	for _, pool := range []string{"both-fleet", e.name} {
		e.poolCondition(pool, karpv1.ConditionReady, metav1.ConditionTrue)
	}
	e.deploy("web", 5, e.pod("1500m", "1Gi"))
	e.podsRun(5)
	e.membersAre("cheap", 3)
	e.membersAre("dear", 0)
	if bought := e.launches("both-fleet"); len(bought) != 2 {
		t.Errorf("%d machines were bought from EC2 itself, want 2", len(bought))
	}
}

// Members that were there before become claims after a while, without any being started: pods find room on them, and what nobody needs is
// given back by its id.
func groupsAdopted(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "adopted")
	e.group("old", "c5.large", func(g *awstest.Group) { g.Desired, g.DesiredLeftAsItIs = 3, false })
	e.until("the members have joined", func() error {
		if n := len(e.nodes()); n != 3 {
			return fmt.Errorf("%d nodes have", n)
		}
		return nil
	})
	e.deploy("web", 1, e.pod("1500m", "1Gi"))
	e.podsRun(1)
	e.fromGroups(map[string]any{"spec.disruption.consolidateAfter": "1s"}, "old")
	e.until("all but the one with the pod are given back", func() error {
		g := e.groupNamed("old")
		if g.Desired != 1 || len(g.Members) != 1 {
			return fmt.Errorf("the group has %d members and should have %d", len(g.Members), g.Desired)
		}
		return nil
	})
	kept := e.membersAre("old", 1)
	if kept[0].Annotations[dovetailv1alpha1.AnnotationAdopt] != kept[0].Status.ProviderID {
		t.Errorf("the claim of %s says that it adopts %q", kept[0].Status.ProviderID, kept[0].Annotations[dovetailv1alpha1.AnnotationAdopt])
	}
	if p := e.podsRun(1)[0]; p.Spec.NodeName != kept[0].Status.NodeName {
		t.Errorf("the pod runs on %s, kept is %s", p.Spec.NodeName, kept[0].Status.NodeName)
	}
	if have := e.desired("old"); !slices.Equal(have, []int{3, 2, 1}) {
		t.Errorf("the group's desired capacity was %v in turn, want 3, 2, 1", have)
	}
}

// The controller is killed amid a scale-up, once before a member has come and once while they become their claims'. Its successor
// raises nothing a second time.
func groupsKilled(t *testing.T, s *sandbox.Sandbox) {
	const n = 20
	e := newEnv(t, s, "killed")
	e.refusesPods("nodes come while no controller is there that binds their pods, and kube-scheduler's back-off lasts")
	e.group("burst", "c5.large", nil)
	e.deploy("web", n, e.pod("1500m", "1Gi"))
	e.podsRefused(n)
	e.fromGroups(nil, "burst")
	kill := func() {
		t.Helper()
		all, err := s.Components(sandbox.Controller)
		e.must(err)
		g := e.groupNamed("burst")
		t.Logf("killed with %d of %d members, %s", len(g.Members), g.Desired, e.kill(all[0]))
	}
	e.until("the group is asked for machines", func() error {
		if e.groupNamed("burst").Desired == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	kill()
	e.until("a member is a claim's", func() error {
		b, err := e.books(e.ctx)
		if err == nil && len(b.Launches) == 0 {
			err = errors.New("none is")
		}
		return err
	})
	kill()
	e.podsRun(n)
	e.claimsAre(n, "Ready", ready)
	e.membersAre("burst", n)
	if have := slices.Max(e.desired("burst")); have != n {
		t.Errorf("the group's desired capacity was %d once, with %d pods", have, n)
	}
}

// A group at its maximum: the pod that it can't help, its event and the class say so, and pods that another group can help are not kept
// waiting: with a second group in its class the pod has its machine.
func groupsFull(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "full")
	e.group("brim", "c5.large", func(g *awstest.Group) { g.Max = 1 })
	e.fromGroups(nil, "brim")
	e.deploy("first", 1, e.pod("1500m", "1Gi"))
	e.podsRun(1)
	e.deploy("second", 1, e.pod("1500m", "1Gi"))
	ev := e.event("Pod", "second-", "FailedScheduling", "NodePool full:", "NodeGroupMaximum", "node group brim is at its maximum size (1)")
	t.Log(ev.Message)
	e.until("the class says so", func() error {
		c, err := sandbox.Get[dovetailv1alpha1.NodeGroupClass](e.ctx, s, groupClasses+"/"+e.name)
		if err != nil {
			return err
		}
		if room := conditionOf(c.Status.Conditions, dovetailv1alpha1.ConditionRoom); room == nil || room.Status != metav1.ConditionFalse || !strings.Contains(room.Message, "brim") {
			return fmt.Errorf("its conditions: %s", conditionsText(c.Status.Conditions))
		}
		return nil
	})
	var waits string
	for _, p := range e.pods() {
		if p.Spec.NodeName == "" {
			waits = p.Name
		}
	}
	if text := e.why("pod/" + e.name + "/" + waits); !strings.Contains(text, "nodegroup/brim") || !strings.Contains(text, "maxSize") {
		t.Errorf("dovetail why does not name the group and its maximum:\n%s", text)
	} else {
		t.Logf("dovetail why:\n%s", text)
	}

	e.group("spare", "c5.large", func(g *awstest.Group) { g.Max = 2 })
	e.must(s.Patch(e.ctx, groupClasses+"/"+e.name, `{"spec":{"selectorTerms":[{"name":"brim"},{"name":"spare"}]}}`))
	e.podsRun(2)
	e.membersAre("brim", 1)
	e.membersAre("spare", 1)
}

// Instances of the cheapest group never join. After the first time-out the pods get nodes of the other group, although these are dearer, and the
// first is asked for no more than it was asked for at once.
func groupNeverJoins(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "never-joins")
	e.must(s.AWS(e.ctx, http.MethodPost, "/_aws/faults", awstest.FaultList{Faults: []awstest.Fault{{Kind: machines.NeverRegisters, InstanceType: "t3a.large"}}}, nil))
	e.group("mute", "t3a.large", nil) // $0.0752 an hour
	e.group("sound", "r5.large", nil) // $0.126
	e.fromGroups(nil, "mute", "sound")
	e.must(s.Patch(e.ctx, groupClasses+"/"+e.name, fmt.Sprintf(`{"spec":{"options":{"maxNodeProvisionTime":%q}}}`, provisionTime)))
	e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionTrue)
	e.deploy("web", 2, e.pod("1500m", "1Gi"))
	e.podsRun(2)
	e.membersAre("sound", 2)
	e.until("the first group's instances are given back", func() error {
		if g := e.groupNamed("mute"); g.Desired+len(g.Members) > 0 {
			return fmt.Errorf("it has %d members and should have %d", len(g.Members), g.Desired)
		}
		return nil
	})
	asked := 0
	for _, in := range e.launches(e.name) {
		if in.InstanceType == "t3a.large" {
			asked++
		}
	}
	if most := slices.Max(e.desired("mute")); most == 0 || most > 2 || asked > 2 {
		t.Errorf("group mute was asked for %d instances at once and had %d in all, want one or two, once", most, asked)
	}
}

// why is what the command line answers.
func (e *env) why(subject string) string {
	e.t.Helper()
	all, err := e.s.Components(sandbox.Controller)
	e.must(err)
	_, bin, err := sandbox.Binaries()
	e.must(err)
	out, err := exec.CommandContext(e.ctx, bin, "why", subject, "--server", fmt.Sprintf("http://127.0.0.1:%d", all[0].Ports["metrics"])).CombinedOutput()
	if err != nil {
		e.t.Fatalf("dovetail why %s: %v\n%s", subject, err, out)
	}
	return string(out)
}

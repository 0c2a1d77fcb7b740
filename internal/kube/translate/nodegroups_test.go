// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// What a NodeGroupClass says of how its groups are scaled reaches its pools, whichever of the two comes first, and goes with it.
func TestGroupScaling(t *testing.T) {
	groups, err := NodeGroups([]NodeGroup{{Name: "web", Tags: map[string]string{
		dovetailv1alpha1.TagNodeTemplateOption + dovetailv1alpha1.OptionUtilizationThreshold: "0.35",
		dovetailv1alpha1.TagNodeTemplateOption + dovetailv1alpha1.OptionIgnoreDaemonSets:     "true",
		dovetailv1alpha1.TagNodeTemplateOption + dovetailv1alpha1.OptionProvisionTime:        "25m",
	}}}, DefaultGroupSettings())
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	tr := &Translator{Table: s.Resources()}
	pool, class := tr.NodePool(groups[0].Pool), tr.NodeGroupClass(groups[0].Class)
	right := func() bool {
		x := s.Pools.FindPool("web").Scaling
		return x != nil && x.UtilizationPercent == 35 && x.GPUPercent == 50 && len(x.GPUs) > 0 && x.IgnoreDaemons && x.Unready == 20*time.Minute && x.Provision == 25*time.Minute
	}
	s.Pools.SetPool(pool)
	if s.Pools.FindPool("web").Scaling != nil {
		t.Error("scaled by a class that is not there")
	}
	s.Pools.SetNodeClass(class)
	if !right() {
		t.Errorf("pool first: %+v", s.Pools.FindPool("web").Scaling)
	}
	s.Pools.DeleteNodeClass(dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass, "web")
	if s.Pools.FindPool("web").Scaling != nil {
		t.Error("scaled by a class that is gone")
	}
	s.Pools.SetNodeClass(class)
	s.Pools.DeletePool("web")
	s.Pools.SetPool(pool)
	if !right() {
		t.Errorf("class first: %+v", s.Pools.FindPool("web").Scaling)
	}
	rules := tr.NodeGroupClass(&dovetailv1alpha1.NodeGroupClass{Spec: dovetailv1alpha1.NodeGroupClassSpec{Options: &dovetailv1alpha1.NodeGroupOptions{
		Expanders: []dovetailv1alpha1.Expander{"least-waste", "price"}, BalanceSimilarGroups: new(true), BalancingIgnoreLabels: []string{"mine"},
		Priorities: []dovetailv1alpha1.NodeGroupPriority{{Priority: 7, Names: []string{"^spot", "("}}}}}}).Scaling
	if !slices.Equal(rules.Expanders, []string{"least-waste", "price"}) || !rules.Balance || !slices.Contains(rules.Ignore, "mine") || !slices.Contains(rules.Ignore, "eks.amazonaws.com/nodegroup") ||
		len(rules.Priorities) != 1 || rules.Priorities[0].Priority != 7 || len(rules.Priorities[0].Names) != 1 || !rules.Priorities[0].Names[0].MatchString("spot-1") {
		t.Errorf("rules: %+v", rules)
	}
	// Drains and delays: what is not given is as of any node, and a longest grace period is one band of all priorities.
	seconds := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Second} }
	options := &dovetailv1alpha1.NodeGroupOptions{DelayAfterAdd: seconds(1), DelayAfterDelete: seconds(2), DelayAfterFailure: seconds(3), DelaysPerGroup: new(true),
		DelayAfterTaint: seconds(4), DeletionDelayTimeout: seconds(0), PriorityCutoff: new(int32(-10)), IgnoreMirrorPodsUtilization: new(true),
		Eviction: &dovetailv1alpha1.NodeGroupEviction{KeepDaemonSetsOfOccupiedNodes: new(true), DrainPriorities: []dovetailv1alpha1.NodeGroupDrainPriority{
			{Priority: 1000, GracePeriod: *seconds(60)}, {Priority: 0, GracePeriod: *seconds(30)}}}}
	rules = tr.NodeGroupClass(&dovetailv1alpha1.NodeGroupClass{Spec: dovetailv1alpha1.NodeGroupClassSpec{Options: options}}).Scaling
	if rules.Delays != (model.ScaleDownDelays{AfterAdd: time.Second, AfterDelete: 2 * time.Second, AfterFailure: 3 * time.Second, PerGroup: true}) || rules.TaintDelay != 4*time.Second ||
		rules.DeletionDelay >= 0 || rules.Cutoff != (model.PriorityCutoff{Set: true, Below: -10}) || !rules.IgnoreMirrors || !rules.Eviction.KeepOtherDaemons ||
		!slices.Equal(rules.Eviction.DrainBands, []model.DrainBand{{Priority: 0, MaxGrace: 30 * time.Second}, {Priority: 1000, MaxGrace: time.Minute}}) {
		t.Errorf("drains and delays: %+v", rules)
	}
	rules = tr.NodeGroupClass(&dovetailv1alpha1.NodeGroupClass{Spec: dovetailv1alpha1.NodeGroupClassSpec{Options: &dovetailv1alpha1.NodeGroupOptions{
		Eviction: &dovetailv1alpha1.NodeGroupEviction{MaxGracePeriod: seconds(600)}}}}).Scaling
	if rules.DeletionDelay != 0 || rules.Delays != (model.ScaleDownDelays{}) || rules.Cutoff.Set || len(rules.Eviction.DrainBands) != 1 || rules.Eviction.DrainBands[0].MaxGrace != 10*time.Minute {
		t.Errorf("a longest grace period alone: %+v", rules)
	}
	// What is known of the groups counts though nobody has set an option; those of which nothing has to be minded are left out.
	resolved := []metav1.Condition{{Type: dovetailv1alpha1.ConditionGroupsResolved, Status: metav1.ConditionTrue}}
	bare := &dovetailv1alpha1.NodeGroupClass{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: dovetailv1alpha1.NodeGroupClassStatus{Conditions: resolved, Groups: []dovetailv1alpha1.NodeGroupStatus{
		{Name: "a", Min: 2, Max: 5}, {Name: "b", Max: 5}, {Name: "c", Refresh: "InProgress"}}}}
	s.Pools.SetNodeClass(tr.NodeGroupClass(bare))
	if x := s.Pools.FindPool("web").Scaling; x == nil || len(x.Groups) != 2 || x.Groups[0] != (model.NodeGroup{Name: "a", Min: 2}) || x.Groups[1] != (model.NodeGroup{Name: "c", Refresh: "InProgress"}) ||
		!slices.Equal(x.Chosen, []string{"a", "b", "c"}) {
		t.Errorf("groups: %+v", x)
	}
	bare = &dovetailv1alpha1.NodeGroupClass{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: dovetailv1alpha1.NodeGroupClassSpec{Options: &dovetailv1alpha1.NodeGroupOptions{}}}
	s.Pools.SetNodeClass(tr.NodeGroupClass(bare))
	if x := s.Pools.FindPool("web").Scaling; x == nil || x.UtilizationPercent >= 0 || x.GPUPercent >= 0 || x.Unready != 0 || !x.Unread || x.Chosen != nil {
		t.Errorf("without options, and before its status was written: %+v", x)
	}
	bare.Status.Conditions = resolved
	s.Pools.SetNodeClass(tr.NodeGroupClass(bare))
	if x := s.Pools.FindPool("web").Scaling; x == nil || x.Unread || x.Chosen == nil || len(x.Chosen) != 0 {
		t.Errorf("of a class that chooses no group: %+v", x)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const quotas = "/apis/autoscaling.x-k8s.io/v1beta1/capacityquotas"

// most is the most machines of some pools that ever ran or booted at the same moment, by the cloud's own journal, and the
// most that they ever cost together, in micro-dollars an hour. Of no pools given it is that of all.
func (e *env) most(pools ...string) (count int, micro int64) {
	e.t.Helper()
	records, err := e.s.Journal(e.ctx)
	e.must(err)
	e.must(launchedOnce(records))
	alive, cost := map[string]int64{}, int64(0)
	for _, r := range records {
		switch r.Kind {
		case machines.RecordLaunched:
			if len(pools) == 0 || slices.Contains(pools, r.Instance.Pool) {
				alive[r.ID] = r.Instance.PriceMicro
				cost += r.Instance.PriceMicro
			}
		case machines.RecordTerminating, machines.RecordTerminated:
			cost -= alive[r.ID]
			delete(alive, r.ID)
		}
		count, micro = max(count, len(alive)), max(micro, cost)
	}
	if count == 0 {
		e.t.Fatal("the journal has no machine, so it proves nothing")
	}
	return count, micro
}

// running waits until exactly this many of the test's pods run, and the others have been refused.
func (e *env) running(n, all int) {
	e.t.Helper()
	e.until(fmt.Sprintf("%d of %d pods run, the others are refused", n, all), func() error {
		run, refused := 0, 0
		for _, p := range e.pods() {
			switch {
			case p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil:
				run++
			case p.Spec.NodeName == "":
				refused++
			}
		}
		if run != n || run+refused != all {
			return fmt.Errorf("%d run, %d wait", run, refused)
		}
		return nil
	})
}

// A burst over two NodePools that a CapacityQuota bounds together: as many nodes as it allows are launched and never
// more, the pods that wait are told of it by name, and its status says what the nodes have. Raised, it lets more come.
func TestQuotaHolds(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "capacity-quota")
	e.must(s.Create(e.ctx, quotas, fmt.Sprintf("{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityQuota, metadata: {name: %s}, spec: {selector: {matchLabels: {%s: %[1]s}}, limits: {resources: {nodes: 4, cpu: 64}}}}", e.name, testLabel)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Scale(limit))
		defer cancel()
		if err := s.Delete(ctx, quotas+"/"+e.name, ""); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("clean up the quota: %v", err)
		}
	})
	status := func(nodes, cpu string) {
		t.Helper()
		e.until("the quota says what is used", func() error {
			q, err := sandbox.Get[autoscalingv1beta1.CapacityQuota](e.ctx, s, quotas+"/"+e.name)
			if err != nil {
				return err
			}
			valid := conditionOf(q.Status.Conditions, "cluster-autoscaler.kubernetes.io/valid")
			if q.Status.Used == nil || valid == nil || valid.Status != metav1.ConditionTrue {
				return fmt.Errorf("its status is %+v", q.Status)
			}
			n, c := q.Status.Used.Resources["nodes"], q.Status.Used.Resources["cpu"]
			if n.String() != nodes || c.String() != cpu {
				return fmt.Errorf("it says %s nodes and %s CPUs", n.String(), c.String())
			}
			return nil
		})
	}
	status("0", "0") // by now it is known
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("c5.xlarge"), "spec.limits": map[string]any{"nodes": "3"}})
	e.otherPool("capacity-quota-other", map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.template.metadata.labels": map[string]any{testLabel: e.name}})
	e.deploy("web", 12, e.pod("3", "1Gi"))
	e.running(4, 12)
	e.event("Pod", "web-", "FailedScheduling", "CapacityQuota capacity-quota allows 4 nodes")
	status("4", "16")
	if n, _ := e.most(e.name, "capacity-quota-other"); n != 4 {
		t.Errorf("%d nodes at once within a quota of 4", n)
	}
	e.must(s.Patch(e.ctx, quotas+"/"+e.name, `{"spec":{"limits":{"resources":{"nodes":6}}}}`))
	e.running(6, 12)
	status("6", "24")
	if n, _ := e.most(e.name, "capacity-quota-other"); n != 6 {
		t.Errorf("%d nodes at once within a quota of 6", n)
	}
	if a, b := len(e.launches(e.name)), len(e.launches("capacity-quota-other")); a != 3 || b != 3 {
		t.Errorf("%d and %d nodes of the two NodePools, want 3 each", a, b)
	}
}

// Limits over the whole cluster, given as flags, over an Auto Scaling group and EC2 itself: first that on nodes, then, with
// larger nodes, that on dollars. The leader is killed amid each burst. In the soak alone: the flags need a sandbox of
// their own.
func TestClusterLimits(t *testing.T) {
	if os.Getenv("DOVETAIL_SOAK") == "" {
		t.Skip("runs in the soak; TestQuotaHolds is its like on the shared sandbox")
	}
	const nodes, dollars = 10, 1_000_000
	s := onEC2(t, "--replicas", "2", "--controller-arg", fmt.Sprintf("--max-nodes-total=%d", nodes), "--controller-arg", "--max-dollars-per-hour=1.00",
		"--controller-arg", "--leader-elect-lease-duration="+pace(3*time.Second).String(), "--controller-arg", "--leader-elect-renew-deadline="+pace(2*time.Second).String(), "--controller-arg", "--leader-elect-retry-period=500ms")
	e := newEnv(t, s, "limits")
	e.group("four", "c5.large", func(g *awstest.Group) { g.Max = 4 }) // $0.085 an hour
	fleet := func(name, instanceType string, taints []any) {
		e.otherPool(name, map[string]any{
			"spec.template.spec.nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
			"spec.template.spec.requirements": only(instanceType), "spec.template.metadata.labels": map[string]any{testLabel: e.name}, "spec.template.spec.taints": taints,
			"spec.disruption.consolidateAfter": "0s",
		})
	}
	fleet("limits-fleet", "m5.large", []any{})                                                                          // $0.096
	fleet("limits-large", "m5.2xlarge", []any{map[string]any{"key": "size", "value": "large", "effect": "NoSchedule"}}) // $0.384
	e.fromGroups(map[string]any{"spec.disruption.consolidateAfter": "0s"}, "four")
	for _, pool := range []string{"limits-fleet", "limits-large", e.name} {
		e.poolCondition(pool, karpv1.ConditionReady, metav1.ConditionTrue)
	}
	hold := func() {
		t.Helper()
		if n, micro := e.most(); n > nodes || micro > dollars {
			t.Errorf("%d nodes for %d micro-dollars an hour at once, within limits of %d and %d", n, micro, nodes, dollars)
		} else {
			t.Logf("at most %d nodes for %d micro-dollars an hour at once", n, micro)
		}
	}
	killed := func() {
		t.Helper()
		e.until("a node is launched", func() error {
			b, err := e.books(e.ctx)
			if err == nil && len(b.Alive) == 0 {
				err = errors.New("none is")
			}
			return err
		})
		t.Logf("killed %s", e.killLeader())
	}
	e.deploy("small", 25, e.pod("1500m", "1Gi"))
	killed()
	e.running(nodes, 25)
	e.event("Pod", "small-", "FailedScheduling", fmt.Sprintf("--max-nodes-total allows %d nodes", nodes))
	hold()
	e.must(s.Delete(e.ctx, "/apis/apps/v1/namespaces/"+e.name+"/deployments", ""))
	e.until("the nodes are gone", func() error {
		if n := len(e.nodes()); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return e.noPods(e.ctx)
	})
	e.deploy("large", 6, e.pod("7", "8Gi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "size", Operator: corev1.TolerationOpExists}}
	}))
	killed()
	e.running(2, 6)
	ev := e.event("Pod", "large-", "FailedScheduling", "--max-dollars-per-hour allows $1/h")
	if !strings.Contains(ev.Message, "$0.768/h is spent") {
		t.Error(ev.Message)
	}
	hold()
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

const claimsOfVolumes = "/api/v1/namespaces/%s/persistentvolumeclaims"

// volume makes a PersistentVolume with a bound claim of the same name.
func (e *env) volume(name, metadata, source string) {
	e.t.Helper()
	full := e.name + "-" + name
	e.must(e.s.Create(e.ctx, "/api/v1/persistentvolumes", fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s%s},
		spec: {storageClassName: "", accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, %s, claimRef: {namespace: %s, name: %s}}}`, full, metadata, source, e.name, name)))
	e.t.Cleanup(func() {
		if err := e.s.Delete(context.Background(), "/api/v1/persistentvolumes/"+full, ""); err != nil {
			e.t.Log(err)
		}
	})
	e.claim(name, "", fmt.Sprintf(`storageClassName: "", volumeName: %s`, full))
	e.until("claim "+name+" is bound", func() error {
		c, err := e.s.Kube.CoreV1().PersistentVolumeClaims(e.name).Get(e.ctx, name, metav1.GetOptions{})
		if err == nil && c.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("it is %s", c.Status.Phase)
		}
		return err
	})
}

// claim makes a PersistentVolumeClaim.
func (e *env) claim(name, metadata, spec string) {
	e.t.Helper()
	e.must(e.s.Create(e.ctx, fmt.Sprintf(claimsOfVolumes, e.name), fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s%s},
		spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, %s}}`, name, metadata, spec)))
}

// with has a pod use a claim.
func with(claim string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
}

// selects has a pod run on nodes with a label.
func selects(key, value string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) { p.Spec.NodeSelector[key] = value }
}

// A volume whose zone is its label alone (row 4): the pod runs in that zone, although there is room in another.
func TestVolumeZoneLabel(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "zone-label")
	e.nodePool(nil)
	e.deploy("base", 1, e.pod("100m", "64Mi"))
	base := e.node(e.podsRun(1)[0].Spec.NodeName)
	zone := base.Labels[corev1.LabelTopologyZone]
	other := strings.TrimSuffix(zone, zone[len(zone)-1:]) + "c"
	if other == zone {
		other = strings.TrimSuffix(zone, "c") + "a"
	}
	e.must(s.Create(e.ctx, "/apis/storage.k8s.io/v1/csidrivers", `{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: zone-label.e2e}, spec: {attachRequired: false}}`))
	e.volume("data", fmt.Sprintf(`, labels: {topology.kubernetes.io/zone: %s}`, other), `csi: {driver: zone-label.e2e, volumeHandle: handle}`)
	e.deploy("db", 1, e.pod("100m", "64Mi", with("data")))
	for _, p := range e.podsRun(2) {
		if in := e.node(p.Spec.NodeName).Labels[corev1.LabelTopologyZone]; p.Labels["app"] == "db" && in != other {
			t.Errorf("the pod runs in zone %s, its volume is in zone %s", in, other)
		}
	}
}

// A pod that names its zone by the label of before Kubernetes 1.17, which nobody sets here but Dovetail.
func TestFormerZoneLabel(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "former-label")
	e.nodePool(nil)
	e.deploy("old", 1, e.pod("100m", "64Mi", selects(corev1.LabelFailureDomainBetaZone, "us-east-1b")))
	if in := e.node(e.podsRun(1)[0].Spec.NodeName).Labels[corev1.LabelTopologyZone]; in != "us-east-1b" {
		t.Errorf("the pod runs in zone %q, want us-east-1b", in)
	}
}

// Claims that no node can use (row 5): nothing is launched for their pods, and why says it in kube-scheduler's words.
func TestVolumeClaimsRefused(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "bad-claims")
	e.nodePool(nil)
	e.must(s.Create(e.ctx, "/apis/storage.k8s.io/v1/storageclasses", `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: bad-claims}, provisioner: bad-claims.e2e, volumeBindingMode: WaitForFirstConsumer}`))
	e.claim("leaving", `, finalizers: [e2e.dovetail.sh/held]`, "storageClassName: bad-claims")
	t.Cleanup(func() {
		if err := s.Patch(context.Background(), fmt.Sprintf(claimsOfVolumes, e.name)+"/leaving", `{"metadata": {"finalizers": null}}`); err != nil {
			t.Log(err)
		}
	})
	e.must(s.Delete(e.ctx, fmt.Sprintf(claimsOfVolumes, e.name)+"/leaving", ""))
	e.claim("taken-scratch", "", "storageClassName: bad-claims")
	pods := map[string]struct {
		volume corev1.VolumeSource
		words  string
	}{
		"leaves":  {corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "leaving"}}, `persistentvolumeclaim "leaving" is being deleted`},
		"missing": {corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "nowhere"}}, `persistentvolumeclaim "nowhere" not found`},
		"taken": {corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("bad-claims"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}}}, "pod is not owner"},
	}
	for name, x := range pods {
		p := e.pod("100m", "64Mi")
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: x.volume}}
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		_, err := s.Kube.CoreV1().Pods(e.name).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: p.Labels}, Spec: p.Spec}, metav1.CreateOptions{})
		e.must(err)
	}
	for name, x := range pods {
		e.until("kube-scheduler refuses "+name, func() error {
			p, err := s.Kube.CoreV1().Pods(e.name).Get(e.ctx, name, metav1.GetOptions{})
			if err == nil && podMessage(p) == "" {
				err = fmt.Errorf("it has not said so")
			}
			return err
		})
		e.until("why tells the claim of "+name, func() error {
			if out := e.why("pod/" + e.name + "/" + name); !strings.Contains(out, x.words) {
				return fmt.Errorf("why says:\n%s", out)
			}
			return nil
		})
	}
	e.deploy("witness", 1, e.pod("100m", "64Mi")) // what comes after them is launched for
	e.until("the witness runs", func() error {
		list, err := s.Kube.CoreV1().Pods(e.name).List(e.ctx, metav1.ListOptions{LabelSelector: "app=witness", FieldSelector: "status.phase=Running"})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("it does not")
		}
		return err
	})
	if n := len(e.launches(e.name)); n != 1 {
		t.Errorf("%d machines were launched, want 1: for the witness alone", n)
	}
}

// Volumes of an in-tree class count for the CSI driver that replaces the plugin (row 7): where the nodes have as many as they
// can attach, another node is launched.
func TestInTreeAttachLimit(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "attach-limit")
	e.nodePool(nil)
	e.deploy("base", 1, e.pod("100m", "64Mi"))
	node := e.podsRun(1)[0].Spec.NodeName
	limit := &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"}},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com", NodeID: node, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(1))}}}},
	}
	_, err := s.Kube.StorageV1().CSINodes().Create(e.ctx, limit, metav1.CreateOptions{})
	e.must(err)
	t.Cleanup(func() {
		if err := s.Delete(context.Background(), "/apis/storage.k8s.io/v1/csinodes/"+node, ""); err != nil {
			t.Log(err)
		}
	})
	e.volume("old", "", "awsElasticBlockStore: {volumeID: vol-1}")
	e.deploy("first", 1, e.pod("100m", "64Mi", with("old"), selects(corev1.LabelHostname, e.node(node).Labels[corev1.LabelHostname])))
	e.podsRun(2)
	e.must(s.Create(e.ctx, "/apis/storage.k8s.io/v1/storageclasses", `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: attach-limit}, provisioner: kubernetes.io/aws-ebs, volumeBindingMode: WaitForFirstConsumer}`))
	e.claim("new", "", "storageClassName: attach-limit")
	e.deploy("second", 1, e.pod("100m", "64Mi", with("new")))
	e.until("kube-scheduler selects another node for the volume", func() error {
		c, err := s.Kube.CoreV1().PersistentVolumeClaims(e.name).Get(e.ctx, "new", metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch at := c.Annotations["volume.kubernetes.io/selected-node"]; at {
		case "":
			return fmt.Errorf("it has selected none; %d machines were launched", len(e.launches(e.name)))
		case node:
			return fmt.Errorf("it has selected the node that is full")
		}
		return nil
	})
	if n := len(e.launches(e.name)); n != 2 {
		t.Errorf("%d machines were launched, want 2", n)
	}
}

// A CSI driver that must be registered on a node before pods use its volumes: a node that stands without it has room for the pod and does not get
// it, a new one is launched, and the pod waits there until the driver is registered.
func TestDriverNotRegistered(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "driver-comes")
	e.refusesPods("the driver of their volumes is registered on no node yet")
	e.nodePool(nil)
	e.deploy("base", 1, e.pod("100m", "64Mi"))
	base := e.podsRun(1)[0].Spec.NodeName
	const driver = "driver-comes.e2e"
	e.must(s.Create(e.ctx, "/apis/storage.k8s.io/v1/csidrivers", `{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: `+driver+`}, spec: {attachRequired: false, preventPodSchedulingIfMissing: true}}`))
	e.volume("data", "", `csi: {driver: `+driver+`, volumeHandle: handle}`)
	e.deploy("db", 1, e.pod("100m", "64Mi", with("data")))
	registered := map[string]bool{}
	e.until("the pod runs", func() error {
		for _, p := range e.pods() {
			if p.Labels["app"] != "db" || p.Spec.NodeName == "" {
				continue
			}
			if !registered[p.Spec.NodeName] {
				t.Fatalf("the pod is on node %s, where its driver is not registered (base: %s)", p.Spec.NodeName, base)
			}
			if p.Status.Phase == corev1.PodRunning {
				return nil
			}
			return fmt.Errorf("it is on node %s, and %s", p.Spec.NodeName, p.Status.Phase)
		}
		for _, n := range e.nodes() {
			if n.Name == base || registered[n.Name] || n.Labels[karpv1.LabelInitialized] != "true" {
				continue
			}
			_, err := s.Kube.StorageV1().CSINodes().Create(e.ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name},
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: n.Name}}}}, metav1.CreateOptions{})
			e.must(err)
			registered[n.Name] = true
			t.Cleanup(func() {
				if err := s.Delete(context.Background(), "/apis/storage.k8s.io/v1/csinodes/"+n.Name, ""); err != nil {
					t.Log(err)
				}
			})
		}
		return fmt.Errorf("it is on no node; the driver is registered on %v", registered)
	})
}

// A volume in a zone by the label of its CSI driver, which the driver sets on a node some time after the node is Ready: the pod waits on the node that was
// launched for it, and no other is launched.
func TestDriverLabelsLate(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "driver-labels")
	e.refusesPods("their driver has not labelled the node yet")
	e.nodePool(nil)
	const key, zone = "topology.ebs.csi.aws.com/zone", "us-east-1c"
	e.volume("data", "", `csi: {driver: ebs.csi.aws.com, volumeHandle: vol-late}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: `+key+`, operator: In, values: [`+zone+`]}]}]}}`)
	e.deploy("db", 1, e.pod("100m", "64Mi", with("data")))
	var node string
	e.until("why says that the pod waits for the labels of its node", func() error {
		for _, n := range e.nodes() {
			node = n.Name
		}
		pods := e.pods()
		if node == "" || len(pods) == 0 {
			return fmt.Errorf("node %q, %d pods", node, len(pods))
		}
		a, err := e.answer("pod/" + e.name + "/" + pods[0].Name)
		want := plan.Fact{Name: "waits for", Value: "node/" + node + " to get the labels that the volume of claim " + e.name + "/data requires, which its CSI driver sets"}
		if err == nil && !slices.Contains(a.Facts, want) {
			err = fmt.Errorf("why says %+v, want %+v", a.Facts, want)
		}
		return err
	})
	e.must(s.Patch(e.ctx, "/api/v1/nodes/"+node, `{"metadata":{"labels":{"`+key+`":"`+zone+`"}}}`))
	if p := e.podsRun(1)[0]; p.Spec.NodeName != node {
		t.Errorf("the pod runs on node %s, want %s, which was launched for it", p.Spec.NodeName, node)
	}
	if n := len(e.launches(e.name)); n != 1 {
		t.Errorf("%d machines were launched, want one", n)
	}
}

// A volume of a driver that tracks its capacity and reports none (row 6): nobody can know before a node has joined that kube-scheduler will not use
// it. Two nodes are launched, and then why tells the cause in kube-scheduler's words.
func TestNoStorageCapacity(t *testing.T) {
	verifyOnly(t)
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "no-storage")
	e.refusesPods("the driver of their volumes reports no capacity")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large"), "spec.disruption.consolidateAfter": "1s"})
	for path, object := range map[string]string{
		"csidrivers":     `{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: no-storage.e2e}, spec: {storageCapacity: true}}`,
		"storageclasses": `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: no-storage}, provisioner: no-storage.e2e, volumeBindingMode: WaitForFirstConsumer}`,
	} {
		e.must(s.Create(e.ctx, "/apis/storage.k8s.io/v1/"+path, object))
	}
	e.claim("data", "", "storageClassName: no-storage")
	e.deploy("db", 1, e.pod("100m", "64Mi", with("data")))
	told := e.event("Pod", "db-", "UnusedLaunch", "did not have enough free storage")
	t.Log(told.Message)
	e.until("nothing more is launched for ten minutes", func() error {
		a, err := e.answer("pod/" + e.name + "/" + e.pods()[0].Name)
		if err == nil && !slices.ContainsFunc(a.Findings, func(f plan.Finding) bool {
			return f.Reason.Code == plan.UnusedLaunches && strings.Contains(f.Reason.Fields().Have, "did not have enough free storage") && time.Until(f.Until) > 5*time.Minute
		}) {
			err = fmt.Errorf("%d nodes were launched; why says %+v", len(e.launches(e.name)), a.Findings)
		}
		return err
	})
	if n := len(e.launches(e.name)); n != 2 {
		t.Errorf("%d nodes were launched for a pod that kube-scheduler puts on none, want two", n)
	}
}

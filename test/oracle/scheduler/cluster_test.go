// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

const (
	seedLabel   = "oracle.dovetail.sh/seed"
	reservedKey = "dovetail.sh/reserved"
	pinDomain   = "pin.oracle.dovetail.sh/"
	kwokNode    = "kwok.x-k8s.io/node"

	tick = 50 * time.Millisecond
)

// patience is how long kube-scheduler has for what it must do, on a quiet machine. It ends only what has gone wrong.
const patience = time.Minute

// still is how long nothing may happen before pods that wait are made anew, so that each is looked at with all others in place.
func still() time.Duration { return testwait.Scale(4 * time.Second) }

// cluster is the sandbox, as its administrator sees it.
type cluster struct {
	ctx  context.Context
	c    kubernetes.Interface
	seed string
}

func newCluster(ctx context.Context, kubeconfig string) (*cluster, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = 1000, 2000
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	k := &cluster{ctx: ctx, c: c}
	for _, n := range namespaces {
		if _, err := c.CoreV1().Namespaces().Create(ctx, n.DeepCopy(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	if _, err := c.SchedulingV1().PriorityClasses().Create(ctx, highPriority.DeepCopy(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	if _, err := c.NodeV1().RuntimeClasses().Create(ctx, heavyRuntime.DeepCopy(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	// Drawn pods tolerate what tenants may not, dovetail.sh/reserved among it; nothing of Dovetail's runs here.
	err = c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "dovetail-reserved-tolerations", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	// Pods are refused before their namespace's account is there, and while the policy is remembered.
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Tolerations: []corev1.Toleration{{Key: "dovetail.sh/reserved", Operator: corev1.TolerationOpExists}}}}
	return k, k.until("accounts and rights to make pods", func() (bool, error) {
		for _, n := range namespaces {
			if _, err := c.CoreV1().ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return false, nil
			}
		}
		_, err := c.CoreV1().Pods(namespaces[0].Name).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, nil
	})
}

// until polls, and gives up after patience.
func (k *cluster) until(what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(k.ctx, testwait.Scale(patience))
	defer cancel()
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		if ok, err := done(); err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-t.C:
		}
	}
}

// each calls f for all, some at a time.
func each[T any](all []T, f func(T) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	slots := make(chan struct{}, 8)
	for i, x := range all {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			errs[i] = f(x)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

func pin(node string) corev1.ResourceName { return corev1.ResourceName(pinDomain + node) }

// setUp makes what stands before anything is planned.
func (k *cluster) setUp(s *scenario) error {
	for _, x := range s.storage {
		x := x.DeepCopy()
		x.Labels = map[string]string{seedLabel: k.seed}
		if _, err := k.c.StorageV1().StorageClasses().Create(k.ctx, x, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, x := range s.volumes {
		x := x.DeepCopy()
		x.Labels = map[string]string{seedLabel: k.seed}
		if _, err := k.c.CoreV1().PersistentVolumes().Create(k.ctx, x, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	bound := 0
	for _, x := range s.claims {
		x := x.DeepCopy()
		x.Labels = map[string]string{seedLabel: k.seed}
		if _, err := k.c.CoreV1().PersistentVolumeClaims(x.Namespace).Create(k.ctx, x, metav1.CreateOptions{}); err != nil {
			return err
		}
		if x.Spec.VolumeName != "" {
			bound++
		}
	}
	if err := k.nodes(s.nodes, s.attach); err != nil {
		return err
	}
	if bound > 0 {
		if err := k.until("claims are bound", func() (bool, error) {
			list, err := k.c.CoreV1().PersistentVolumeClaims("").List(k.ctx, metav1.ListOptions{LabelSelector: seedLabel + "=" + k.seed})
			if err != nil {
				return false, err
			}
			n := 0
			for i := range list.Items {
				if list.Items[i].Status.Phase == corev1.ClaimBound {
					n++
				}
			}
			return n == bound, nil
		}); err != nil {
			return err
		}
	}
	return each(s.standing, k.pod)
}

// nodes makes nodes that are Ready, and with a resource that only pods meant for them ask for.
func (k *cluster) nodes(list []*corev1.Node, attach map[string]int64) error {
	return each(list, func(n *corev1.Node) error {
		if c := csiNode(n.Name, attach[n.Name]); c != nil {
			c.Labels = map[string]string{seedLabel: k.seed}
			if _, err := k.c.StorageV1().CSINodes().Create(k.ctx, c, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		n = n.DeepCopy()
		n.Labels[seedLabel], n.Labels[kwokNode] = k.seed, "fake"
		n.Annotations = map[string]string{kwokNode: "fake"}
		many := resource.MustParse("1000")
		n.Status.Capacity, n.Status.Allocatable = n.Status.Capacity.DeepCopy(), n.Status.Allocatable.DeepCopy()
		n.Status.Capacity[pin(n.Name)], n.Status.Allocatable[pin(n.Name)] = many, many
		now := metav1.Now()
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}}
		if _, err := k.c.CoreV1().Nodes().Create(k.ctx, n, metav1.CreateOptions{}); err != nil {
			return err
		}
		return k.taint(n) // admission gives every new node a taint that the node controller would take away a second later
	})
}

// taint writes a node's taints as they are to be.
func (k *cluster) taint(n *corev1.Node) error {
	taints := append([]corev1.Taint{}, n.Spec.Taints...)
	if n.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}})
	if err != nil {
		return err
	}
	_, err = k.c.CoreV1().Nodes().Patch(k.ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// pod makes a pod. Its owner is not there, and would have it collected.
func (k *cluster) pod(p *corev1.Pod) error {
	p = p.DeepCopy()
	p.OwnerReferences, p.UID = nil, ""
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[seedLabel] = k.seed
	_, err := k.c.CoreV1().Pods(p.Namespace).Create(k.ctx, p, metav1.CreateOptions{})
	return err
}

// deletePods takes pods away at once, and waits until they are.
func (k *cluster) deletePods(list []*corev1.Pod) error {
	if err := each(list, func(p *corev1.Pod) error {
		err := k.c.CoreV1().Pods(p.Namespace).Delete(k.ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	return k.until("pods are gone", func() (bool, error) {
		have, err := k.list()
		if err != nil {
			return false, err
		}
		for _, p := range list {
			if have[p.Namespace+"/"+p.Name] != nil {
				return false, nil
			}
		}
		return true, nil
	})
}

// list gives all pods of the seed by namespace and name.
func (k *cluster) list() (map[string]*corev1.Pod, error) {
	list, err := k.c.CoreV1().Pods("").List(k.ctx, metav1.ListOptions{LabelSelector: seedLabel + "=" + k.seed})
	if err != nil {
		return nil, err
	}
	out := make(map[string]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Namespace+"/"+list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// provision makes the disks that kube-scheduler has chosen a node for, as a storage driver would.
func (k *cluster) provision() error {
	const selected = "volume.kubernetes.io/selected-node"
	list, err := k.c.CoreV1().PersistentVolumeClaims("").List(k.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		c := &list.Items[i]
		if c.Annotations[selected] == "" || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil {
			continue
		}
		n, err := k.c.CoreV1().Nodes().Get(k.ctx, c.Annotations[selected], metav1.GetOptions{})
		if err != nil {
			continue // of a seed before
		}
		var zones []string
		if z := n.Labels[zoneKey]; z != "" {
			zones = []string{z}
		}
		v := newVolume("pv-"+string(c.UID), c, zones)
		v.Labels = map[string]string{seedLabel: k.seed}
		if _, err := k.c.CoreV1().PersistentVolumes().Create(k.ctx, v, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// verdict is what kube-scheduler says of a pod that it has not bound.
func verdict(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// landed waits until all pods are bound, handing on each state to see. It answers the pods that are not, when nothing more
// happens though each was made anew.
func (k *cluster) landed(pods []*corev1.Pod, volumes bool, see func(map[string]*corev1.Pod) error) ([]*corev1.Pod, error) {
	last, bound, renewed := time.Now(), -1, false
	var left []*corev1.Pod
	err := k.until("pods are bound", func() (bool, error) {
		have, err := k.list()
		if err != nil {
			return false, err
		}
		if volumes {
			if err := k.provision(); err != nil {
				return false, err
			}
		}
		left = left[:0]
		judged := true
		for _, p := range pods {
			h := have[p.Namespace+"/"+p.Name]
			if h == nil || h.Spec.NodeName == "" {
				left = append(left, p)
				judged = judged && h != nil && verdict(h) != ""
			}
		}
		if err := see(have); err != nil || len(left) == 0 {
			return true, err
		}
		if n := len(pods) - len(left); n != bound {
			bound, last = n, time.Now()
		}
		if !judged || time.Since(last) < still() {
			return false, nil
		}
		if renewed {
			return true, nil
		}
		renewed, last = true, time.Now()
		if err := k.deletePods(left); err != nil {
			return false, err
		}
		return false, each(left, k.pod)
	})
	if err != nil && len(left) > 0 && k.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return left, nil
	}
	return left, err
}

var ofNodes = regexp.MustCompile(`^0/(\d+) nodes are available: `)

// refused makes pods and waits for what kube-scheduler says of each when it has seen as many nodes as there are. An empty text: it was
// bound, to the node given. The pods are gone afterwards.
func (k *cluster) refused(pods []*corev1.Pod, nodes int, volumes bool) (said, on map[*corev1.Pod]string, err error) {
	said, on = map[*corev1.Pod]string{}, map[*corev1.Pod]string{}
	if err := each(pods, k.pod); err != nil {
		return nil, nil, err
	}
	renewed := time.Now()
	err = k.until("kube-scheduler has refused the pods", func() (bool, error) {
		have, err := k.list()
		if err != nil {
			return false, err
		}
		if volumes { // a pod that is refused wrongly would wait for its disk
			if err := k.provision(); err != nil {
				return false, err
			}
		}
		var early []*corev1.Pod
		for _, p := range pods {
			if _, ok := said[p]; ok {
				continue
			}
			h := have[p.Namespace+"/"+p.Name]
			if h == nil {
				continue
			}
			text := verdict(h)
			m := ofNodes.FindStringSubmatch(text)
			switch {
			case h.Spec.NodeName != "":
				said[p], on[p] = "", h.Spec.NodeName
			case m != nil && m[1] == strconv.Itoa(nodes), nodes == 0 && strings.HasPrefix(text, "no nodes"):
				said[p] = text
			case text != "" && m == nil && !strings.HasPrefix(text, "no nodes"):
				said[p] = text // not about nodes
			case text != "":
				early = append(early, p)
			}
		}
		if len(early) > 0 && time.Since(renewed) > testwait.Scale(time.Second) {
			renewed = time.Now()
			if err := k.deletePods(early); err != nil {
				return false, err
			}
			if err := each(early, k.pod); err != nil {
				return false, err
			}
		}
		return len(said) == len(pods), nil
	})
	if err != nil {
		if have, listErr := k.list(); listErr == nil {
			for _, p := range pods {
				if _, ok := said[p]; !ok && have[p.Namespace+"/"+p.Name] != nil {
					err = fmt.Errorf("%w; %s/%s with %d nodes: %q", err, p.Namespace, p.Name, nodes, verdict(have[p.Namespace+"/"+p.Name]))
				}
			}
		}
		return nil, nil, err
	}
	return said, on, k.deletePods(pods)
}

// deleteNodes takes nodes away.
func (k *cluster) deleteNodes(list []*corev1.Node, attach map[string]int64) error {
	return each(list, func(n *corev1.Node) error {
		if attach[n.Name] > 0 {
			if err := k.c.StorageV1().CSINodes().Delete(k.ctx, n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return k.c.CoreV1().Nodes().Delete(k.ctx, n.Name, metav1.DeleteOptions{})
	})
}

// tearDown takes away all that the seed has made.
func (k *cluster) tearDown() error {
	all := metav1.ListOptions{LabelSelector: seedLabel + "=" + k.seed}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	var errs []error
	for _, n := range namespaces {
		errs = append(errs, k.c.CoreV1().Pods(n.Name).DeleteCollection(k.ctx, now, all))
	}
	errs = append(errs, k.c.CoreV1().Nodes().DeleteCollection(k.ctx, now, all), k.c.StorageV1().CSINodes().DeleteCollection(k.ctx, now, all))
	for _, n := range namespaces {
		// Those of ephemeral volumes are not ours by label, but nobody else's either.
		errs = append(errs, k.c.CoreV1().PersistentVolumeClaims(n.Name).DeleteCollection(k.ctx, now, metav1.ListOptions{}))
	}
	errs = append(errs, k.c.CoreV1().PersistentVolumes().DeleteCollection(k.ctx, now, all), k.c.StorageV1().StorageClasses().DeleteCollection(k.ctx, now, all))
	errs = append(errs, k.until("pods are gone", func() (bool, error) {
		have, err := k.list()
		return len(have) == 0, err
	}))
	return errors.Join(errs...)
}

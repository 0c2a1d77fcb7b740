// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

var (
	podsGVR           = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodesGVR          = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	eventsGVR         = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	deploymentsGVR    = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	claimsGVR         = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	ec2NodeClassesGVR = schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}
	nodePoolsGVR      = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	kwokClassesGVR    = schema.GroupVersionResource{Group: "karpenter.kwok.sh", Version: "v1alpha1", Resource: "kwoknodeclasses"}
)

const (
	workload   = "inflate" // the Deployment that is scaled, and its pods' app label
	namespace  = metav1.NamespaceDefault
	poolLabel  = "karpenter.sh/nodepool"
	capacity   = "karpenter.sh/capacity-type"
	groupLabel = "dovetail.sh/node-group"
	disrupted  = "Disrupted"  // reason of the event that a NodeClaim is deleted
	whyAfter   = "Deleting: " // the controller's word follows
	httpExpiry = 10 * time.Second
)

// api is the cluster as its admin sees it.
type api struct {
	client  dynamic.Interface
	changes chan change
}

// connect starts the watches and returns when each has told what was there.
func connect(ctx context.Context, kubeconfig string) (*api, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } // Everything is on loopback.
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the sandbox: %w", err)
	}
	a := &api{client: client, changes: make(chan change, 1024)}
	var synced []cache.InformerSynced
	for _, w := range []struct {
		resource schema.GroupVersionResource
		selector fields.Selector
		read     func(*unstructured.Unstructured) (change, error)
	}{
		{podsGVR, fields.Everything(), readPod},
		{nodesGVR, fields.Everything(), readNode},
		{claimsGVR, fields.Everything(), readClaim},
		{eventsGVR, fields.Set{"involvedObject.kind": "NodeClaim", "reason": disrupted}.AsSelector(), readEvent},
	} {
		done, err := a.watch(ctx, w.resource, w.selector, w.read)
		if err != nil {
			return nil, err
		}
		synced = append(synced, done)
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if !cache.WaitForCacheSync(limited.Done(), synced...) {
		return nil, fmt.Errorf("watch the sandbox's cluster: no list within a minute from %s", config.Host)
	}
	return a, nil
}

func (a *api) watch(ctx context.Context, resource schema.GroupVersionResource, selector fields.Selector,
	read func(*unstructured.Unstructured) (change, error)) (cache.InformerSynced, error) {
	at := a.client.Resource(resource)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector.String()
			return at.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector.String()
			return at.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, 0, nil)
	tell := func(object any, gone bool) {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		c, err := read(u)
		if err != nil {
			return // The API server has validated it; there is nothing to show of it.
		}
		c.at, c.gone = time.Now(), gone
		select {
		case a.changes <- c:
		case <-ctx.Done():
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell(object, false) },
		UpdateFunc: func(_, object any) { tell(object, false) },
		DeleteFunc: func(object any) { tell(object, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
	}
	go informer.RunWithContext(ctx)
	return informer.HasSynced, nil
}

func readPod(u *unstructured.Unstructured) (change, error) {
	var p corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
		return change{}, err
	}
	out := pod{
		name: p.Namespace + "/" + p.Name, node: p.Spec.NodeName, ours: p.Namespace == namespace && p.Labels["app"] == workload,
		ending: p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded,
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable:
			out.stuck = true
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			out.running = p.Status.Phase == corev1.PodRunning
		}
	}
	for _, c := range p.Spec.Containers {
		out.cpu += c.Resources.Requests.Cpu().MilliValue()
		out.memory += c.Resources.Requests.Memory().Value()
	}
	return change{pod: &out}, nil
}

func readNode(u *unstructured.Unstructured) (change, error) {
	var n corev1.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return change{}, err
	}
	out := node{
		name: n.Name, pool: n.Labels[poolLabel], machine: n.Labels[corev1.LabelInstanceTypeStable], zone: n.Labels[corev1.LabelTopologyZone],
		capacityType: n.Labels[capacity], group: n.Labels[groupLabel], cpu: n.Status.Allocatable.Cpu().MilliValue(), memory: n.Status.Allocatable.Memory().Value(),
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.ready = c.Status == corev1.ConditionTrue
		}
	}
	return change{node: &out}, nil
}

func readClaim(u *unstructured.Unstructured) (change, error) {
	labels := u.GetLabels()
	out := claim{
		name: u.GetName(), machine: labels[corev1.LabelInstanceTypeStable], zone: labels[corev1.LabelTopologyZone], capacityType: labels[capacity],
		group: labels[groupLabel], ending: u.GetDeletionTimestamp() != nil,
	}
	out.launched, out.initialized = isTrue(u, "Launched"), isTrue(u, "Initialized")
	return change{claim: &out}, nil
}

func readEvent(u *unstructured.Unstructured) (change, error) {
	claim, _, err := unstructured.NestedString(u.Object, "involvedObject", "name")
	if err != nil {
		return change{}, err
	}
	message, _, err := unstructured.NestedString(u.Object, "message")
	return change{ended: reason{claim, strings.TrimPrefix(message, whyAfter)}}, err
}

func isTrue(u *unstructured.Unstructured, condition string) bool {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == condition {
			return c["status"] == string(metav1.ConditionTrue)
		}
	}
	return false
}

// apply makes the one object of a manifest.
func (a *api) apply(ctx context.Context, name, text string) error {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		return fmt.Errorf("decode the manifest of %s: %w", name, err)
	}
	var client dynamic.ResourceInterface
	switch u.GetKind() {
	case "KWOKNodeClass":
		client = a.client.Resource(kwokClassesGVR)
	case "NodePool":
		client = a.client.Resource(nodePoolsGVR)
	case "EC2NodeClass":
		client = a.client.Resource(ec2NodeClassesGVR)
	default:
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
		client = a.client.Resource(deploymentsGVR).Namespace(u.GetNamespace())
	}
	if _, err := client.Create(ctx, u, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// scale sets the workload's replicas.
func (a *api) scale(ctx context.Context, n int) error {
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	_, err := a.client.Resource(deploymentsGVR).Namespace(namespace).Patch(ctx, workload, types.MergePatchType, body, metav1.PatchOptions{}, "scale")
	if err != nil {
		return fmt.Errorf("scale the deployment %s to %d: %w", workload, n, err)
	}
	return nil
}

// waitReady returns when the controller says of at least so many objects that
// it can buy by them.
func (a *api) waitReady(ctx context.Context, resource schema.GroupVersionResource, least int, limit time.Duration) error {
	ready := 0
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	late := func(err error) error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("%d of %d %s were Ready after %s", ready, least, resource.Resource, limit)
		}
		return err
	}
	client := a.client.Resource(resource)
	for {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return late(fmt.Errorf("list %s: %w", resource.Resource, err))
		}
		ready = 0
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			if isTrue(o.(*unstructured.Unstructured), "Ready") {
				ready++
			}
			return nil
		})
		if ready >= least {
			return nil
		}
		w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			return late(fmt.Errorf("watch %s: %w", resource.Resource, err))
		}
		select {
		case <-w.ResultChan(): // Whatever it was, look again.
		case <-ctx.Done():
		}
		w.Stop()
		if ctx.Err() != nil {
			return late(context.Cause(ctx))
		}
	}
}

// readPrices asks the simulated cloud for its price list.
func readPrices(ctx context.Context, machinesURL string) (map[offering]price, error) {
	var list struct {
		Types []struct {
			Name      string `json:"name"`
			Offerings []struct {
				Zone         string `json:"zone"`
				CapacityType string `json:"capacityType"`
				PriceMicro   int64  `json:"priceMicroUSDPerHour"`
				Modelled     bool   `json:"priceModelled"`
			} `json:"offerings"`
		} `json:"types"`
	}
	if err := get(ctx, machinesURL+"/v1/offerings", &list); err != nil {
		return nil, err
	}
	prices := map[offering]price{}
	for _, t := range list.Types {
		for _, o := range t.Offerings {
			prices[offering{t.Name, o.Zone, o.CapacityType}] = price{o.PriceMicro, o.Modelled}
		}
	}
	if len(prices) == 0 {
		return nil, fmt.Errorf("the simulated cloud at %s offers nothing", machinesURL)
	}
	return prices, nil
}

// books are what the simulated AWS has started.
type books struct {
	Started int      `json:"started"` // ever
	Twice   []string `json:"twice"`   // uids of NodeClaims with more than one instance
	Alive   []struct {
		ID   string            `json:"id"`
		Tags map[string]string `json:"tags"`
	} `json:"alive"` // that run or boot
}

func readBooks(ctx context.Context, awsURL string) (books, error) {
	var b books
	return b, get(ctx, awsURL+"/_aws/books?tag=dovetail.sh/nodeclaim-uid", &b)
}

// instancesLeft names the instances that were launched and are not terminated. A
// member of a group is one, claimed or not.
func instancesLeft(ctx context.Context, machinesURL, awsURL string) ([]string, error) {
	if awsURL != "" {
		b, err := readBooks(ctx, awsURL)
		if err != nil {
			return nil, err
		}
		var left []string
		for _, i := range b.Alive {
			left = append(left, i.ID+" of "+cmp.Or(i.Tags["karpenter.sh/nodeclaim"], "no NodeClaim"))
		}
		return left, nil
	}
	var list struct {
		Instances []struct {
			ID        string `json:"id"`
			ClaimUID  string `json:"claimUID"`
			ClaimName string `json:"claimName"`
		} `json:"instances"`
	}
	if err := get(ctx, machinesURL+"/v1/instances", &list); err != nil {
		return nil, err
	}
	var left []string
	for _, i := range list.Instances {
		if i.ClaimUID != "" {
			left = append(left, i.ID+" of "+i.ClaimName)
		}
	}
	if len(list.Instances) == 0 {
		return nil, fmt.Errorf("the simulated cloud at %s lists no instance, not even the base node's", machinesURL)
	}
	return left, nil
}

func get(ctx context.Context, address string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, httpExpiry)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("ask the simulated cloud: %w", err)
	}
	client := http.Client{Transport: &http.Transport{Proxy: nil}} // Never through a proxy: it is on loopback.
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the simulated cloud: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("ask the simulated cloud: GET %s: %s: %s", address, response.Status, body)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("decode the simulated cloud's answer to GET %s: %w", address, err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/top"
)

// What `dovetail top --once` does with the answers of an API server that has 1,000 nodes and 20,000 pods as kubelets leave them: everything but
// the server's own work, which is done beforehand.
func BenchmarkReadOverview(b *testing.B) {
	const nodes, pods = 1000, 20_000
	client := connectTo(b, listServer(b, nodes, pods))
	b.ReportAllocs()
	for b.Loop() {
		board := top.NewBoard(top.Cluster{}, top.Prices{})
		changes := make(chan top.Change, 64)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for c := range changes {
				c(board)
			}
		}()
		if err := ReadOverview(b.Context(), client, func(c top.Change) { changes <- c }); err != nil {
			b.Fatal(err)
		}
		close(changes)
		<-done
		if v := board.View(time.Now()); len(v.Nodes) != nodes {
			b.Fatalf("%d nodes, want %d", len(v.Nodes), nodes)
		}
	}
}

// listServer answers lists of nodes and of pods page by page, in protobuf, compressed as kube-apiserver does. It has nothing else.
func listServer(b *testing.B, nodes, pods int) http.Handler {
	b.Helper()
	nodePages, podPages := map[string][]byte{}, map[string][]byte{}
	for at := 0; at < nodes; at += listPage {
		list := &corev1.NodeList{ListMeta: pageMeta(at, nodes)}
		for i := at; i < min(at+listPage, nodes); i++ {
			list.Items = append(list.Items, benchNode(i))
		}
		nodePages[pageToken(at)] = encodePage(b, list)
	}
	for at := 0; at < pods; at += listPage {
		list := &corev1.PodList{ListMeta: pageMeta(at, pods)}
		for i := at; i < min(at+listPage, pods); i++ {
			list.Items = append(list.Items, benchPod(i, i%nodes))
		}
		podPages[pageToken(at)] = encodePage(b, list)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answerVersion(w, r) {
			return
		}
		var page []byte
		switch r.URL.Path {
		case "/api/v1/nodes":
			page = nodePages[r.URL.Query().Get("continue")]
		case "/api/v1/pods":
			page = podPages[r.URL.Query().Get("continue")]
		}
		if page == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(page)
	})
}

// pageToken is the continue token of the page that begins with the at-th object.
func pageToken(at int) string {
	if at == 0 {
		return ""
	}
	return strconv.Itoa(at)
}

func pageMeta(at, of int) metav1.ListMeta {
	m := metav1.ListMeta{ResourceVersion: "7"}
	if at+listPage < of {
		m.Continue = pageToken(at + listPage)
	}
	return m
}

func encodePage(b *testing.B, list runtime.Object) []byte {
	b.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		b.Fatal(err)
	}
	if err := client.Codecs.EncoderForVersion(protobuf.NewSerializer(client.Scheme, client.Scheme), corev1.SchemeGroupVersion).Encode(list, z); err != nil {
		b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

func benchNodeName(i int) string { return fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/250, i%250) }

// managed is what the API server keeps of who has set which fields.
func managed(fields int) []metav1.ManagedFieldsEntry {
	set := strings.Repeat(`"f:field":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}},`, fields)
	now := metav1.Now()
	return []metav1.ManagedFieldsEntry{
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{" + set + `"f:x":{}}`)},
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{" + set + `"f:x":{}}`), Subresource: "status"},
	}
}

func benchNode(i int) corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse("15890m"), "memory": resource.MustParse("28Gi"), "pods": resource.MustParse("234")}
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: benchNodeName(i), UID: types.UID(fmt.Sprintf("node-%d", i)), CreationTimestamp: metav1.Now(), ManagedFields: managed(12),
			Labels: map[string]string{"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand", corev1.LabelInstanceTypeStable: "c6a.4xlarge",
				corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: "us-east-1a", corev1.LabelHostname: benchNodeName(i)}},
		Status: corev1.NodeStatus{Capacity: amounts, Allocatable: amounts, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(), Reason: "KubeletReady", Message: "kubelet is posting ready status"},
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(), Reason: "KubeletHasSufficientMemory"}}},
	}
}

func benchPod(i, node int) corev1.Pod {
	yes, seconds := true, int64(300)
	app := fmt.Sprintf("service-%05d", i/100)
	amounts := corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("512Mi")}
	var conditions []corev1.PodCondition
	for _, c := range []corev1.PodConditionType{"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		conditions = append(conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-7d4b9c6f5-%05d", app, i), UID: types.UID(fmt.Sprintf("pod-%d", i)), CreationTimestamp: metav1.Now(),
			GenerateName: app + "-7d4b9c6f5-", ResourceVersion: strconv.Itoa(i), Labels: map[string]string{"app": app, "pod-template-hash": "7d4b9c6f5", "team": "shop"}, ManagedFields: managed(8),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7d4b9c6f5", UID: "rs", Controller: &yes, BlockOwnerDeletion: &yes}}},
		Spec: corev1.PodSpec{NodeName: benchNodeName(node), SchedulerName: "default-scheduler", ServiceAccountName: "default", DeprecatedServiceAccount: "default",
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SecurityContext: &corev1.PodSecurityContext{}, EnableServiceLinks: &yes,
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds}},
			Volumes: []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}, {ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}}}}}}},
			Containers: []corev1.Container{{Name: "app", Image: "registry.example/shop/app:v1.2.3", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
				Env:                    []corev1.EnvVar{{Name: "ADDRESS", Value: ":8080"}, {Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
				VolumeMounts:           []corev1.VolumeMount{{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
				ReadinessProbe:         &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Scheme: "HTTP"}}, PeriodSeconds: 10},
				TerminationMessagePath: "/dev/termination-log", ImagePullPolicy: corev1.PullIfNotPresent}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", HostIP: "10.1.0.1", QOSClass: corev1.PodQOSGuaranteed, Conditions: conditions,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: true, Image: "registry.example/shop/app:v1.2.3", ImageID: "registry.example/shop/app@sha256:0a1b", ContainerID: "containerd://0a1b",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}},
	}
}

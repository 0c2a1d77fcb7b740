// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi/clusterapitest"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestMistakes: what people get wrong in the management cluster is told with the object, the field, the value and a remedy, in the conditions of the class
// or, if nothing can be read, in the error that becomes the pool's condition. The other groups stay in use.
func TestMistakes(t *testing.T) {
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/"
	const first = clusterapitest.Infra + "/v1/namespaces/default/kwokmachinetemplates/group-00"
	annotation := func(key, value string) func(*clusterapitest.Answers) {
		return func(a *clusterapitest.Answers) {
			text := a.Texts[at+"machinedeployments"]
			first, rest, _ := strings.Cut(text, "}")
			for !strings.Contains(first, "dovetail.sh/price-per-hour") { // the last of the annotations of group-00
				more, after, ok := strings.Cut(rest, "}")
				if !ok {
					panic("the fleet has no prices")
				}
				first, rest = first+"}"+more, after
			}
			a.Texts[at+"machinedeployments"] = first + `,"` + key + `":"` + value + `"}` + rest // of two of one key, the last counts
		}
	}
	status := func(condition string) func(*clusterapitest.Answers) {
		return func(a *clusterapitest.Answers) {
			a.Texts[at+"machinedeployments"] = strings.Replace(strings.Replace(a.Texts[at+"machinedeployments"], `"spec":{"replicas"`, `"status":{"conditions":[`+condition+`]},"spec":{"replicas"`, 1),
				`"failureDomain":"z1",`, `"failureDomain":"z1","bootstrap":{"configRef":{"kind":"KubeadmConfigTemplate","name":"boot"}},`, 1)
		}
	}
	const capacity = "capacity.cluster-autoscaler.kubernetes.io/"
	pool := func(metadata, status string) func(*clusterapitest.Answers) {
		return func(a *clusterapitest.Answers) {
			a.Texts[at+"machinepools"] = `{"items":[{"metadata":{"name":"pool","uid":"pool","labels":{"cluster.x-k8s.io/cluster-name":"workload"},"annotations":{` + metadata + `
				"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size":"0","cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"9"}},
				"spec":{"replicas":0,"template":{"spec":{"infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"KwokMachinePool","name":"pool"}}}}}]}`
			a.Texts[clusterapitest.Infra+"/v1/namespaces/default/kwokmachinepools/pool"] = `{"spec":{"template":{"instanceType":"big"}},"status":{` + status + `"capacity":{"cpu":"4","memory":"16Gi"}}}`
		}
	}
	var told strings.Builder
	for _, c := range []struct {
		name   string
		change func(*clusterapitest.Answers)
		want   string // in the condition of the class; empty: nothing is wrong
		err    string // in the error, if nothing can be read
	}{
		{"fine", func(*clusterapitest.Answers) {}, "", ""},
		{"cpu", annotation(capacity+"cpu", "four"), `MachineDeployment default/group-00: annotation capacity.cluster-autoscaler.kubernetes.io/cpu: "four": use an amount above 0`, ""},
		{"no cpu", annotation(capacity+"cpu", "0"), `cpu: "0": use an amount above 0`, ""},
		{"memory", annotation(capacity+"memory", "16GB"), `annotation capacity.cluster-autoscaler.kubernetes.io/memory: "16GB": use an amount above 0, for example 4 or 16Gi`, ""},
		{"disk", annotation(capacity+"ephemeral-disk", "-1Gi"), `annotation capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk: "-1Gi": use an amount above 0`, ""},
		{"pods", annotation(capacity+"maxPods", "all"), `annotation capacity.cluster-autoscaler.kubernetes.io/maxPods: "all": use an amount above 0`, ""},
		{"gpus", annotation(capacity+"gpu-count", "1 x A100"), `annotation capacity.cluster-autoscaler.kubernetes.io/gpu-count: "1 x A100": use an amount above 0`, ""},
		{"DRA driver", annotation(capacity+"dra-driver", "NVIDIA"), `annotation capacity.cluster-autoscaler.kubernetes.io/dra-driver: "NVIDIA": use the name of a DRA driver, for example gpu.nvidia.com`, ""},
		{"CSI driver", annotation(capacity+"csi-driver", "ebs.csi.aws.com=25,disk.csi.azure.com"), `annotation capacity.cluster-autoscaler.kubernetes.io/csi-driver: "disk.csi.azure.com": use DRIVER=VOLUMES`, ""},
		{"volumes", annotation(capacity+"csi-driver", "ebs.csi.aws.com=many"), `csi-driver: "ebs.csi.aws.com=many": use DRIVER=VOLUMES, separated by commas, for example ebs.csi.aws.com=25`, ""},
		{"price", annotation("dovetail.sh/price-per-hour", "12 cents"), `annotation dovetail.sh/price-per-hour: "12 cents": use dollars per hour, for example 0.12`, ""},
		{"minimum", annotation("cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "none"), `annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: "none": use a number of machines, 0 or more`, ""},
		{"minimum above maximum", annotation("cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "200"), `annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: 200 is above cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: 100; lower it`, ""},
		{"maximum", annotation("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "1.5"), `annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: "1.5": use a number of machines, 0 or more`, ""},
		{"GPU share", annotation("cluster.x-k8s.io/autoscaling-options-scaledowngpuutilizationthreshold", "2"), `scaledowngpuutilizationthreshold: "2": use a share between 0 and 1`, ""},
		{"unready", annotation("cluster.x-k8s.io/autoscaling-options-scaledownunreadytime", "20"), `scaledownunreadytime: "20": use a duration such as 10m`, ""},
		{"taints", annotation(capacity+"taints", "a=b:Sometimes"), `taints: "a=b:Sometimes": use KEY=VALUE:EFFECT`, ""},
		{"taint without effect", annotation(capacity+"taints", "a=b"), `taints: "a=b": use KEY=VALUE:EFFECT`, ""},
		{"labels", annotation(capacity+"labels", "a b=c"), `labels: "a b=c": use KEY=VALUE`, ""},
		{"gpu type", annotation(capacity+"gpu-type", "two words"), `gpu-type: "two words": use the name of a resource`, ""},
		{"share", annotation("cluster.x-k8s.io/autoscaling-options-scaledownutilizationthreshold", "50%"), `scaledownutilizationthreshold: "50%": use a share between 0 and 1`, ""},
		{"duration", annotation("cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime", "-1m"), `maxnodeprovisiontime: "-1m": use a duration such as 10m`, ""},
		{"no template", func(a *clusterapitest.Answers) { delete(a.Texts, first) }, "MachineDeployment default/group-00: annotations capacity.cluster-autoscaler.kubernetes.io/cpu and capacity.cluster-autoscaler.kubernetes.io/memory: missing, and its infrastructure template has no status.capacity; set both (spec.template.spec.infrastructureRef: KwokMachineTemplate default/group-00 does not exist; create it, or name one that exists)", ""},
		{"template without a right", func(a *clusterapitest.Answers) {
			a.Errors = map[string]error{first: apierrors.NewForbidden(schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "kwokmachinetemplates"}, "group-00", nil)}
		}, `set both (KwokMachineTemplate default/group-00: kwokmachinetemplates.infrastructure.cluster.x-k8s.io "group-00" is forbidden`, ""},
		{"bootstrap template", status(`{"type":"ScalingUp","status":"False","message":"Scaling up would be blocked because KubeadmConfigTemplate does not exist"}`),
			"MachineDeployment default/group-00: condition ScalingUp: Scaling up would be blocked because KubeadmConfigTemplate does not exist; spec.template.spec.bootstrap.configRef: create KubeadmConfigTemplate default/boot, or name one that exists", ""},
		{"both templates", status(`{"type":"ScalingUp","status":"True","message":"Scaling up from 0 to 1 replicas is blocked because KubeadmConfigTemplate and KwokMachineTemplate do not exist"}`),
			"; spec.template.spec.bootstrap.configRef: create KubeadmConfigTemplate default/boot, or name one that exists; spec.template.spec.infrastructureRef: create KwokMachineTemplate default/group-00, or name one that exists", ""},
		{"scaling up", status(`{"type":"ScalingUp","status":"True","message":"Scaling up from 0 to 1 replicas"}`), "", ""},
		{"paused cluster", func(a *clusterapitest.Answers) { a.Texts[at+"clusters/workload"] = `{"spec":{"paused":true}}` }, "", "Cluster default/workload: spec.paused: true; set it to false"},
		{"topology", func(a *clusterapitest.Answers) {
			a.Texts[at+"clusters/workload"] = `{"spec":{"topology":{"workers":{"machineDeployments":[{"name":"x"},{"name":"md","replicas":3}]}}}}`
			a.Texts[at+"machinedeployments"] = strings.Replace(a.Texts[at+"machinedeployments"], `"labels":{`, `"labels":{"topology.cluster.x-k8s.io/deployment-name":"md",`, 1)
		}, "Cluster default/workload: spec.topology.workers.machineDeployments[1].replicas: 3: the ClusterClass would undo each change of MachineDeployment group-00; remove the field", ""},
		{"topology without replicas", func(a *clusterapitest.Answers) {
			a.Texts[at+"clusters/workload"] = `{"spec":{"topology":{"workers":{"machineDeployments":[{"name":"md"}]}}}}`
			a.Texts[at+"machinedeployments"] = strings.Replace(a.Texts[at+"machinedeployments"], `"labels":{`, `"labels":{"topology.cluster.x-k8s.io/deployment-name":"md",`, 1)
		}, "", ""},
		{"pool", pool("", `"infrastructureMachineKind":"KwokMachine",`), "", ""},
		{"pool without Machines", pool("", ""), "MachinePool default/pool: KwokMachinePool default/pool: status.infrastructureMachineKind: empty: it has no Machines, so a single node can't be removed; use", ""},
		{"pool of a cloud", pool(`"cluster.x-k8s.io/replicas-managed-by":"eks",`, `"infrastructureMachineKind":"KwokMachine",`), `MachinePool default/pool: annotation cluster.x-k8s.io/replicas-managed-by: "eks": its size is managed externally; remove the annotation`, ""},
		{"no MachinePools installed", func(a *clusterapitest.Answers) { delete(a.Texts, at+"machinepools") }, "", ""},
		{"no Cluster", func(a *clusterapitest.Answers) { delete(a.Texts, at+"clusters/workload") }, "", "the management cluster has no Cluster default/workload; set --cluster-api-cluster to NAMESPACE/NAME"},
		{"no Cluster API", func(a *clusterapitest.Answers) { delete(a.Texts, clusterapitest.Core) }, "", "the management cluster has no API group cluster.x-k8s.io; install Cluster API there"},
		{"gone", func(a *clusterapitest.Answers) {
			a.Errors = map[string]error{clusterapitest.Core: errors.New("dial tcp 10.0.0.1:443: connect: connection refused")}
		}, "", "connection refused; if this persists, check that the management cluster runs and that --management-kubeconfig names it"},
		{"no right", func(a *clusterapitest.Answers) {
			a.Errors = map[string]error{at + "machinesets": apierrors.NewForbidden(schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machinesets"}, "", errors.New(`User "u" cannot list`))}
		}, "", `list machinesets of namespace default: machinesets.cluster.x-k8s.io is forbidden: User "u" cannot list; grant the rights that "dovetail manifests --cluster-api" prints`},
		{"old credentials", func(a *clusterapitest.Answers) {
			a.Errors = map[string]error{clusterapitest.Core: apierrors.NewUnauthorized("expired")}
		}, "", "expired; the management cluster rejects the credentials of --management-kubeconfig: renew them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, kept := fleet(2, 1)
			c.change(a)
			p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, a, kept, state.New().Resources(), cloud.Wall{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
			_, err := p.Offerings(t.Context(), nil, groupClass())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("have %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			status, err := p.ClassStatus(t.Context(), groupClass())
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, x := range status.Conditions {
				if x.Status == "False" {
					said += x.Message
				}
			}
			if !strings.Contains(said, c.want) || c.want == "" && said != "" {
				t.Errorf("the conditions say %q, want %q", said, c.want)
			}
			if strings.Contains(said, "group-01") {
				t.Errorf("the conditions say %q; nothing is wrong with group-01", said)
			}
			told.WriteString(said + "\n")
		})
	}
	for _, key := range clusterapi.Annotations() {
		if !strings.Contains(told.String(), "annotation "+key+": ") {
			t.Errorf("no case has an odd value of annotation %s", key)
		}
	}
}

// TestForbiddenAfterRestart: an API server that has just started forbids what it has permitted before. To grant the rights is advised only if that lasts, and
// at once if they never were there.
func TestForbiddenAfterRestart(t *testing.T) {
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/"
	synctest.Test(t, func(t *testing.T) {
		a, kept := fleet(2, 1)
		p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, a, kept, state.New().Resources(), cloud.Wall{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		list := func(forbidden, advised bool) {
			t.Helper()
			a.Errors = nil
			if forbidden {
				a.Errors = map[string]error{}
				for _, resource := range []string{"clusters/workload", "machines", "machinedeployments"} {
					a.Errors[at+resource] = apierrors.NewForbidden(schema.GroupResource{Group: "cluster.x-k8s.io", Resource: resource}, "", errors.New("not yet"))
				}
			}
			_, err := p.List(t.Context())
			if (err != nil) != forbidden || err != nil && strings.Contains(err.Error(), "grant the rights") != advised {
				t.Errorf("have %v; forbidden: %v, advised: %v", err, forbidden, advised)
			}
		}
		list(true, true)
		list(false, false)
		time.Sleep(time.Hour)
		for range 2 {
			list(true, false)
			time.Sleep(time.Minute)
			list(true, false)
			time.Sleep(time.Minute)
			list(true, true)
			list(false, false)
		}
	})
}

// TestMembers: a ClusterAPINodeClass selects among the groups that have the label of members, and says which field of it is wrong.
func TestMembers(t *testing.T) {
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/machinedeployments"
	a, kept := fleet(3, 0)
	for i, labels := range []string{`"labels":{"node.cluster.x-k8s.io/karpenter-member":"","tier":"a",`, `"labels":{"node.cluster.x-k8s.io/karpenter-member":"yes","tier":"b",`} {
		name := fmt.Sprintf(`"name":"group-0%d"`, i)
		before, after, ok := strings.Cut(a.Texts[at], name)
		if !ok {
			t.Fatalf("there is no group %s", name)
		}
		a.Texts[at] = before + name + strings.Replace(after, `"labels":{`, labels, 1)
	}
	p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, a, kept, state.New().Resources(), cloud.Wall{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	for _, c := range []struct{ spec, groups, err string }{
		{"", "group-00 group-01", ""},
		{`{"scalableResourceSelector":{"matchLabels":{"tier":"b"}}}`, "group-01", ""},
		{`{"scalableResourceSelector":{"matchExpressions":[{"key":"tier","operator":"NotIn","values":["b"]}]}}`, "group-00", ""},
		{`{"scalableResourceSelector":{"matchLabels":{"tier":"c"}}}`, "", "spec.scalableResourceSelector: selects no MachineDeployment, MachineSet or MachinePool with label node.cluster.x-k8s.io/karpenter-member"},
		{`{"scalableResourceSelector":{"matchExpressions":[{"key":"tier","operator":"Is","values":["b"]}]}}`, "", `ClusterAPINodeClass members: spec.scalableResourceSelector: "Is" is not a valid label selector operator`},
	} {
		class := cloud.NodeClass{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.KindClusterAPINodeClass, Name: "members", Spec: []byte(c.spec)}
		status, err := p.ClassStatus(t.Context(), class)
		if err != nil {
			t.Fatalf("%s: %v", c.spec, err)
		}
		var have dovetailv1alpha1.NodeGroupClassStatus
		if len(status.Status) > 0 {
			if err := json.Unmarshal(status.Status, &have); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for _, g := range have.Groups {
			names = append(names, g.Name)
		}
		said := ""
		for _, x := range status.Conditions {
			if x.Status == "False" {
				said += x.Message + " "
			}
		}
		if strings.Join(names, " ") != c.groups || c.err != "" && !strings.Contains(said, c.err) {
			t.Errorf("%s: groups %q and %q, want %q and %q", c.spec, names, said, c.groups, c.err)
		}
	}
}

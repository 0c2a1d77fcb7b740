// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/state"
)

const bufferInput = `
apiVersion: v1
kind: PodTemplate
metadata: {name: db, namespace: shop}
template:
  metadata: {labels: {app: db}}
  spec:
    containers: [{name: db, image: db, resources: {requests: {cpu: "1"}}}]
    volumes:
      - {name: old, persistentVolumeClaim: {claimName: old}}
      - {name: data, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: zonal, resources: {requests: {storage: 1Gi}}}}}}
      - {name: any, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: anywhere, resources: {requests: {storage: 1Gi}}}}}}
      - {name: lost, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: anywhere}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: zonal}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies:
  - matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [a, b]}]
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: first, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {podTemplateRef: {name: db}, replicas: 3}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: second, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z"}
spec: {podTemplateRef: {name: db}, replicas: 3}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, resources: {requests: {cpu: "1"}}}]}
`

// buffersOf returns each CapacityBuffer of an input with its replicas and where the volumes of its pods can be.
func buffersOf(t *testing.T, input string) string {
	t.Helper()
	m, err := Read("input", []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	m.Feed(s)
	var out strings.Builder
	for _, b := range s.Snapshot(time.Time{}).Buffers {
		fmt.Fprintf(&out, "%s: %d", b.Name, b.Replicas)
		for _, v := range b.Like.Class.Volumes {
			fmt.Fprintf(&out, " volume %s in %v, on nodes %v, driver %q handle %q unmade %t one node %t", v.Claim, v.Topology, v.Standing, v.Driver, v.Handle, v.Unmade, v.OneNode)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// TestBuffers: what virtual pods have of the volumes of their template, and how many ResourceQuotas leave room for beside the other pods of the
// input, the oldest buffer first.
func TestBuffers(t *testing.T) {
	const place = ` volume shop/data in [topology.kubernetes.io/zone In [a b]], on nodes [topology.ebs.csi.aws.com/zone In [a b]], driver "" handle "" unmade false one node false` + "\n"
	quota := func(rest string) string {
		return bufferInput + "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: shop}\n" + rest
	}
	for _, x := range []struct{ name, input, want string }{
		{"no quota", bufferInput, "first: 3" + place + "second: 3" + place},
		{"pods", quota(`spec: {hard: {pods: "6"}}`), "first: 3" + place + "second: 1" + place},
		{"CPU, with its use", quota("spec: {hard: {requests.cpu: \"6\"}}\nstatus: {used: {requests.cpu: \"3\"}}\n"), "first: 1" + place + "second: 0" + place},
		{"another namespace's", strings.Replace(quota(`spec: {hard: {pods: "6"}}`), "{name: q, namespace: shop}", "{name: q}", 1), "first: 3" + place + "second: 3" + place},
	} {
		if got := buffersOf(t, x.input); got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, got, x.want)
		}
	}
}

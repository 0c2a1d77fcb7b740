// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// node is the Node that an instance's kubelet and the cloud controller make together, and what keeps it from joining, if anything.
func (t *tx) node(in *instance, it *catalog.Type, zone string, data *shapes.EC2RequestLaunchTemplateData) (machines.NodeSpec, string) {
	name := privateName(t.catalog.Region, in.IP)
	n := machines.NodeSpec{Name: name, ProviderID: "aws:///" + zone + "/" + in.ID, Annotations: model.Labels{simulated.KwokNode: simulated.KwokNodeValue}, Labels: model.Labels{}}
	family := custom
	if im := t.image(in.Image); im != nil {
		family = im.Family
	}
	k, err := readUserData(family, data.UserData)
	if err == nil {
		err = t.joins(k)
	}
	if err != nil {
		return n, err.Error()
	}
	maps.Copy(n.Labels, k.labels)
	arch := it.Labels[model.LabelArch]
	known := model.Labels{
		model.LabelHostname: name, model.LabelArch: arch, model.LabelOS: "linux", model.LabelInstanceType: it.Name, model.LabelZone: zone,
		model.LabelRegion: t.catalog.Region, "topology.k8s.aws/zone-id": zoneID(t.catalog.Region, zone),
		"beta.kubernetes.io/arch": arch, "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/instance-type": it.Name,
		"failure-domain.beta.kubernetes.io/zone": zone, "failure-domain.beta.kubernetes.io/region": t.catalog.Region,
	}
	maps.Copy(n.Labels, known)
	n.Taints = k.taints
	capacity, allocatable := t.sizes(k, it, in.Image, family, data)
	n.Capacity, n.Allocatable = simulated.Quantities(capacity), simulated.Quantities(allocatable)
	return n, ""
}

// joins reports whether a kubelet finds the cluster.
func (c *Cloud) joins(k *kubelet) error {
	if k.cluster == "" || k.endpoint == "" {
		return fmt.Errorf("kubelet: user data names cluster %q and API server %q; it needs both", k.cluster, k.endpoint)
	}
	if k.cluster != c.settings.Cluster {
		return fmt.Errorf("kubelet: user data names cluster %q, this one is %q", k.cluster, c.settings.Cluster)
	}
	if c.settings.Endpoint != "" && k.endpoint != c.settings.Endpoint {
		return fmt.Errorf("kubelet: no API server at %s, the cluster's is %s", k.endpoint, c.settings.Endpoint)
	}
	return nil
}

// hypervisor is how much of a type's memory its machines don't have, in ppm: what the hypervisor and the kernel keep. It is
// nowhere published; drawn here from type and image between 2.5 % and 7 %.
func (t *tx) hypervisor(instanceType, image string) int64 {
	if f := t.fault(Overhead, "", instanceType, "", ""); f != nil {
		return int64(f.Percent) * 10_000
	}
	return 25_000 + int64(draw(45_000, "hypervisor", instanceType, image))
}

// sizes are a node's capacity and allocatable, by the images' published rules.
func (t *tx) sizes(k *kubelet, it *catalog.Type, image, family string, data *shapes.EC2RequestLaunchTemplateData) (capacity, allocatable catalog.Amounts) {
	capacity, allocatable = catalog.Amounts{}, catalog.Amounts{}
	for r, v := range it.Capacity {
		capacity[r], allocatable[r] = v, v
	}
	delete(capacity, "vpc.amazonaws.com/pod-eni") // the resource controller's, which only acts where a pod asks for it
	delete(allocatable, "vpc.amazonaws.com/pod-eni")
	memory := it.Capacity["memory"]
	capacity["memory"] = (memory - memory/1_000_000*t.hypervisor(it.Name, image)) >> 10 << 10
	if k.maxPods > 0 {
		capacity["pods"] = k.maxPods
	}
	allocatable["pods"] = capacity["pods"]
	capacity["ephemeral-storage"] = rootVolume(family, data)
	if gb, err := strconv.ParseInt(it.Labels[catalog.EC2Labels+"instance-local-nvme"], 10, 64); err == nil && k.raid0 {
		capacity["ephemeral-storage"] = gb * 1_000_000_000
	}
	reserved := catalog.Amounts{"cpu": reservedCPU(it.Capacity["cpu"] / 1000), "memory": (11*capacity["pods"] + 255) * mib, "ephemeral-storage": gib}
	take := func(from map[string]string, override bool) {
		for r, q := range from {
			v, err := catalog.ParseQuantity(r, q)
			if err != nil {
				continue // the kubelet refuses it too; the node class is validated before
			}
			if override {
				reserved[r] = v
			} else {
				reserved[r] += v
			}
		}
	}
	take(k.kubeReserved, true)
	take(k.systemReserved, false)
	reserved["memory"] += evicted(k.evictionHard["memory.available"], capacity["memory"], 100*mib)
	reserved["ephemeral-storage"] += evicted(k.evictionHard["nodefs.available"], capacity["ephemeral-storage"], capacity["ephemeral-storage"]/10)
	for r, v := range reserved {
		allocatable[r] = max(capacity[r]-v, 0)
	}
	return capacity, allocatable
}

// evicted is below how much free the kubelet evicts. A share of 100% switches the signal off.
func evicted(signal string, of, standard int64) int64 {
	if signal == "" {
		return standard
	}
	if percent, ok := strings.CutSuffix(signal, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		switch {
		case err != nil:
			return standard
		case p == 100:
			return 0
		}
		return int64(float64(of) * p / 100)
	}
	v, err := catalog.ParseQuantity("memory", signal)
	if err != nil {
		return standard
	}
	return v
}

// reservedCPU is what EKS's images keep for the kubelet: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of
// the others. In milli-cores.
func reservedCPU(cores int64) int64 {
	tenths := int64(0) // of a milli-core
	for i := range cores {
		switch {
		case i == 0:
			tenths += 600
		case i == 1:
			tenths += 100
		case i < 4:
			tenths += 50
		default:
			tenths += 25
		}
	}
	return tenths / 10
}

// rootVolume is the size of the volume that holds pods' files.
func rootVolume(family string, data *shapes.EC2RequestLaunchTemplateData) int64 {
	devices := []string{"/dev/xvda", "/dev/sda1"}
	if family == bottlerocket {
		devices = []string{"/dev/xvdb"}
	}
	for _, b := range data.BlockDeviceMappings {
		if slices.Contains(devices, b.DeviceName) && b.Ebs != nil && b.Ebs.VolumeSize != nil {
			return *b.Ebs.VolumeSize * gib
		}
	}
	return 20 * gib
}

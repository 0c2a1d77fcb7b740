// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// machineTemplate is the part of an infrastructure template of any provider, or of a machine pool, that is read.
type machineTemplate struct {
	Spec struct {
		Template templateSpec `json:"template"`
	} `json:"spec"`
	Status struct {
		MachineKind string              `json:"infrastructureMachineKind"` // of a pool that has a Machine for each of its machines
		Capacity    corev1.ResourceList `json:"capacity"`
		NodeInfo    struct {
			Architecture    string `json:"architecture"`
			OperatingSystem string `json:"operatingSystem"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

// templateSpec is the template of an infrastructure template, which has a spec, or that of a pool of machines, some of which have the fields themselves.
type templateSpec map[string]any

// field returns a field that says the type of machine; empty: there is none.
func (t templateSpec) field(name string) string {
	if spec, ok := t["spec"].(map[string]any); ok {
		t = spec
	}
	v, _ := t[name].(string)
	return v
}

// typeFields are the fields of infrastructure templates that say the type of machine.
var typeFields = []string{infrastructureFieldType, "vmSize", "machineType", "type", "flavor", "size", "plan"}

// Describe implements nodegroups.Server, from the annotations of the group, then from its infrastructure template.
func (s *server) Describe(ctx context.Context, group string) (nodegroups.Description, error) {
	s.mu.Lock()
	o, kind := s.seen[group].object, s.seen[group].resource
	s.mu.Unlock()
	if o == nil {
		var err error
		if o, kind, err = s.find(ctx, group); err != nil {
			return nodegroups.Description{}, err
		}
	}
	infra, missing, err := s.infrastructure(ctx, o)
	if err != nil {
		return nodegroups.Description{}, err
	}
	d := &describer{object: kindOf(kind) + " " + s.namespace + "/" + group, annotations: o.Metadata.Annotations, node: &corev1.Node{}}
	d.capacity(infra)
	d.labels(o, infra)
	d.taints(o)
	if kind == resourcePools && infra.Status.MachineKind == "" && d.problem == "" {
		ref := o.Spec.Template.Spec.InfrastructureRef
		d.problem = cmp.Or(missing, fmt.Sprintf("%s: %s %s/%s: status.infrastructureMachineKind: empty: it has no Machines, so a single node can't be removed; use an infrastructure provider with MachinePool Machines, or a MachineDeployment", d.object, ref.Kind, s.namespace, ref.Name))
	}
	out := nodegroups.Description{Node: d.node, PriceMicro: d.price(), Options: d.options(), CSILimits: d.csiLimits(), Devices: d.devices()}
	if d.problem == "" && (d.node.Status.Capacity.Cpu().IsZero() || d.node.Status.Capacity.Memory().IsZero()) {
		d.problem = fmt.Sprintf("%s: annotations %scpu and %smemory: missing, and its infrastructure template has no status.capacity; set both", d.object, annotationCapacity, annotationCapacity)
		if missing != "" {
			d.problem += " (" + missing + ")"
		}
	}
	out.Problem = d.problem
	return out, nil
}

// infrastructure reads the infrastructure template of a group. One that can't be read is empty, with the reason.
func (s *server) infrastructure(ctx context.Context, o *object) (t machineTemplate, missing string, err error) {
	ref := o.Spec.Template.Spec.InfrastructureRef
	if ref.Kind == "" {
		return t, "spec.template.spec.infrastructureRef: empty", nil
	}
	group, version := ref.APIGroup, ""
	if at := strings.LastIndexByte(ref.APIVersion, '/'); group == "" && at > 0 {
		group, version = ref.APIVersion[:at], ref.APIVersion[at+1:]
	}
	if version == "" {
		version, err = s.version(ctx, group)
	}
	unpermitted := true
	if err == nil {
		var data []byte
		data, err = s.read(ctx, path.Join("/apis", group, version, "namespaces", s.namespace, strings.ToLower(ref.Kind)+"s", ref.Name), nil)
		if unpermitted = s.noteCall("get "+strings.ToLower(ref.Kind)+"s", err); err == nil {
			err = json.Unmarshal(data, &t)
		}
	}
	switch {
	case err == nil:
		return t, "", nil
	case apierrors.IsNotFound(err):
		s.forgetVersion(group)
		return t, fmt.Sprintf("spec.template.spec.infrastructureRef: %s %s/%s does not exist; create it, or name one that exists", ref.Kind, s.namespace, ref.Name), nil
	case apierrors.IsForbidden(err):
		s.forgetVersion(group)
		return t, fmt.Sprintf("%s %s/%s: %v%s", ref.Kind, s.namespace, ref.Name, err, remedyOf(err, unpermitted)), nil
	}
	return t, "", callError("read "+ref.Kind+" "+s.namespace+"/"+ref.Name, err, unpermitted)
}

// describer reads the annotations about the nodes of a group. The first invalid one is the problem.
type describer struct {
	object      string
	annotations map[string]string
	node        *corev1.Node
	gpus        int64
	problem     string
}

// bad notes an annotation that can't be read.
func (d *describer) bad(key, value, remedy string) {
	if d.problem == "" {
		d.problem = fmt.Sprintf("%s: annotation %s: %q: %s", d.object, key, value, remedy)
	}
}

// amounts are the annotations that say how much of a resource a node has.
var amounts = map[string]corev1.ResourceName{"cpu": corev1.ResourceCPU, "memory": corev1.ResourceMemory, "ephemeral-disk": corev1.ResourceEphemeralStorage, "maxPods": corev1.ResourcePods, keyGPUs: resourceGPU}

// resourceGPU stands for the resource that annotation gpu-type names.
const resourceGPU = corev1.ResourceName("nvidia.com/gpu")

// Annotations with prefix annotationCapacity that are not amounts.
const (
	keyGPUs      = "gpu-count"
	keyGPUType   = "gpu-type"
	keyDRADriver = "dra-driver"
	keyCSI       = "csi-driver"
	keyLabels    = "labels"
	keyTaints    = "taints"
)

// capacity reads the resources of a node. With a DRA driver, its GPUs are devices, and a resource only if their type is named as well.
func (d *describer) capacity(infra machineTemplate) {
	have := corev1.ResourceList{}
	maps.Copy(have, infra.Status.Capacity)
	gpu, driver := resourceGPU, d.annotations[annotationCapacity+keyDRADriver]
	if v := d.annotations[annotationCapacity+keyGPUType]; v != "" {
		if gpu = corev1.ResourceName(v); len(validation.IsQualifiedName(v)) > 0 {
			d.bad(annotationCapacity+keyGPUType, v, "use the name of a resource, for example nvidia.com/gpu")
		}
	} else if driver != "" {
		gpu = ""
	}
	for key, name := range amounts {
		text, ok := d.annotations[annotationCapacity+key]
		if !ok {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 || q.Sign() == 0 && (key == "cpu" || key == "memory") {
			d.bad(annotationCapacity+key, text, "use an amount above 0, for example 4 or 16Gi")
			continue
		}
		if key == keyGPUs {
			d.gpus, name = q.Value(), gpu
		}
		if name != "" {
			have[name] = q
		}
	}
	d.node.Status.Capacity = have
	if driver != "" && len(validation.IsDNS1123Subdomain(driver)) > 0 {
		d.bad(annotationCapacity+keyDRADriver, driver, "use the name of a DRA driver, for example gpu.nvidia.com")
	}
}

// devices returns how many GPUs a node has that its DRA driver will publish, by driver.
func (d *describer) devices() map[string]int64 {
	if driver := d.annotations[annotationCapacity+keyDRADriver]; driver != "" && d.gpus > 0 {
		return map[string]int64{driver: d.gpus}
	}
	return nil
}

// csiLimits reads how many volumes can be attached to a node, by CSI driver.
func (d *describer) csiLimits() map[string]int64 {
	var out map[string]int64
	for _, pair := range splitList(d.annotations[annotationCapacity+keyCSI]) {
		driver, text, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 || len(validation.IsDNS1123Subdomain(driver)) > 0 {
			d.bad(annotationCapacity+keyCSI, pair, "use DRIVER=VOLUMES, separated by commas, for example ebs.csi.aws.com=25")
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[driver] = n
	}
	return out
}

// labels reads the labels of a node. Cluster API sets labels of a template on nodes only in its own domains.
func (d *describer) labels(o *object, infra machineTemplate) {
	labels := map[string]string{}
	for k, v := range o.Spec.Template.Metadata.Labels {
		domain, _, _ := strings.Cut(k, "/")
		if domain == "node-role.kubernetes.io" || domain == "node-restriction.kubernetes.io" || strings.HasSuffix(domain, ".node-restriction.kubernetes.io") || domain == "node.cluster.x-k8s.io" || strings.HasSuffix(domain, ".node.cluster.x-k8s.io") {
			labels[k] = v
		}
	}
	set := func(key, value string) {
		if value != "" {
			labels[key] = value
		}
	}
	set(model.LabelArch, infra.Status.NodeInfo.Architecture)
	set(model.LabelOS, infra.Status.NodeInfo.OperatingSystem)
	set(model.LabelZone, o.Spec.Template.Spec.FailureDomain)
	for _, field := range typeFields {
		if v := infra.Spec.Template.field(field); v != "" && len(validation.IsValidLabelValue(v)) == 0 {
			set(model.LabelInstanceType, v)
			break
		}
	}
	const key = annotationCapacity + keyLabels
	for _, pair := range splitList(d.annotations[key]) {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
			d.bad(key, pair, "use KEY=VALUE, separated by commas")
			continue
		}
		labels[k] = v
	}
	d.node.Labels = labels
}

// taints reads the taints of a node.
func (d *describer) taints(o *object) {
	d.node.Spec.Taints = append(d.node.Spec.Taints, o.Spec.Template.Spec.Taints...)
	const key = annotationCapacity + keyTaints
	for _, text := range splitList(d.annotations[key]) {
		at := strings.LastIndexByte(text, ':')
		name, value, _ := strings.Cut(text[:max(at, 0)], "=")
		t := corev1.Taint{Key: name, Value: value, Effect: corev1.TaintEffect(text[at+1:])}
		known := t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute || t.Effect == corev1.TaintEffectPreferNoSchedule
		if at < 0 || !known || len(validation.IsQualifiedName(name)) > 0 {
			d.bad(key, text, "use KEY=VALUE:EFFECT with effect NoSchedule, NoExecute or PreferNoSchedule, separated by commas")
			continue
		}
		d.node.Spec.Taints = append(d.node.Spec.Taints, t)
	}
}

// splitList splits a list at commas.
func splitList(text string) (out []string) {
	for _, x := range strings.Split(text, ",") {
		if x = strings.TrimSpace(x); x != "" {
			out = append(out, x)
		}
	}
	return out
}

// price reads the price of a node in micro-dollars per hour; 0: it is not said.
func (d *describer) price() int64 {
	text, ok := d.annotations[model.AnnotationPrice]
	if !ok {
		return 0
	}
	micro, err := catalog.ParsePrice(text)
	if err != nil {
		d.bad(model.AnnotationPrice, text, "use dollars per hour, for example 0.12")
	}
	return micro
}

// Annotations with prefix annotationOption.
const (
	optionUtilization    = "scaledownutilizationthreshold"
	optionGPUUtilization = "scaledowngpuutilizationthreshold"
	optionUnready        = "scaledownunreadytime"
	optionProvision      = "maxnodeprovisiontime"
)

// options reads how a group is scaled.
func (d *describer) options() *nodegroups.Options {
	out := &nodegroups.Options{}
	for name, to := range map[string]**int32{optionUtilization: &out.UtilizationPercent, optionGPUUtilization: &out.GPUUtilizationPercent} {
		if text, ok := d.annotations[annotationOption+name]; ok {
			n, err := dovetailv1alpha1.SharePercent(text)
			if err != nil {
				d.bad(annotationOption+name, text, "use a share between 0 and 1 such as 0.5")
				continue
			}
			*to = &n
		}
	}
	for name, to := range map[string]*time.Duration{optionUnready: &out.Unready, optionProvision: &out.Provision} {
		if text, ok := d.annotations[annotationOption+name]; ok {
			v, err := time.ParseDuration(text)
			if err != nil || v < 0 {
				d.bad(annotationOption+name, text, "use a duration such as 10m")
				continue
			}
			*to = v
		}
	}
	return out
}

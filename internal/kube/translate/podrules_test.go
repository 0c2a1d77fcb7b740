// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestLocalVolume: hostPath and emptyDir on disk count, those in memory and those that the pod names do not.
func TestLocalVolume(t *testing.T) {
	disk := corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	memory := corev1.Volume{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
	host := corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var"}}}
	config := corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
	for _, c := range []struct {
		volumes []corev1.Volume
		safe    string
		want    string
	}{
		{[]corev1.Volume{config, memory}, "", ""}, {[]corev1.Volume{config, disk, host}, "", "disk"}, {[]corev1.Volume{host}, "disk", "host"},
		{[]corev1.Volume{disk, host}, "disk", "host"}, {[]corev1.Volume{disk, host}, "disk,host", ""},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationSafeVolumes: c.safe}}, Spec: corev1.PodSpec{Volumes: c.volumes}}
		if got := localVolume(p); got != c.want {
			t.Errorf("%d volumes, safe %q: %q, want %q", len(c.volumes), c.safe, got, c.want)
		}
	}
}

// TestPodRuleAnnotations: a delay that can't be read is none.
func TestPodRuleAnnotations(t *testing.T) {
	for text, want := range map[string]time.Duration{"5m": 5 * time.Minute, "soon": 0, "-1m": 0, "": 0} {
		var out model.Pod
		podRuleFacts(&out, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationScaleUpDelay: text, annotationDaemonEviction: "false"}}})
		if out.ScaleUpDelay != want || out.DaemonEviction != "false" {
			t.Errorf("%q: %s %q", text, out.ScaleUpDelay, out.DaemonEviction)
		}
	}
}

// TestStarting: a pod is starting from when it is bound until a container of it has run.
func TestStarting(t *testing.T) {
	for _, c := range []struct {
		node  string
		phase corev1.PodPhase
		want  bool
	}{{"", corev1.PodPending, false}, {"n1", "", true}, {"n1", corev1.PodPending, true}, {"n1", corev1.PodRunning, false}, {"n1", corev1.PodFailed, false}} {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: c.node}, Status: corev1.PodStatus{Phase: c.phase}}
		if got := (&Translator{Table: state.NewResourceTable()}).Pod(p).Starting; got != c.want {
			t.Errorf("bound to %q, phase %q: %t, want %t", c.node, c.phase, got, c.want)
		}
	}
}

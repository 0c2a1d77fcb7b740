// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Of a node with GPUs only they count, by a bound of their own; of one without, CPU and memory.
func TestNodeUtilizationOfGPUs(t *testing.T) {
	const gpu = model.Dim(4)
	how := &model.GroupScaling{UtilizationPercent: 50, GPUPercent: 30, GPUs: []model.Dim{gpu, gpu + 1}}
	pod := &model.Pod{Class: &model.Class{Requests: model.Resources{model.CPU: 3000, model.Memory: 1 << 30}.With(gpu, 1)}}
	n := &model.Node{Allocatable: model.Resources{model.CPU: 4000, model.Memory: 8 << 30}.With(gpu, 4), Pods: []*model.Pod{pod}}
	if most, of, share := nodeUtilization(how, model.PriorityCutoff{}, n); most != 30 || of != "GPUs" || share != 25 {
		t.Errorf("with GPUs: %d %% of %s, at most %d", share, of, most)
	}
	static := &model.Pod{Mirror: true, Class: &model.Class{Requests: model.Resources{}.With(gpu, 2)}}
	n.Pods = append(n.Pods, static)
	if _, _, share := nodeUtilization(how, model.PriorityCutoff{}, n); share != 75 {
		t.Errorf("with a static pod: %d %%", share)
	}
	how.IgnoreMirrors = true
	if _, _, share := nodeUtilization(how, model.PriorityCutoff{}, n); share != 25 {
		t.Errorf("without static pods: %d %%", share)
	}
	n.Allocatable = n.Allocatable.With(gpu, 0)
	if most, of, share := nodeUtilization(how, model.PriorityCutoff{}, n); most != 50 || of != "CPU" || share != 75 {
		t.Errorf("without: %d %% of %s, at most %d", share, of, most)
	}
}

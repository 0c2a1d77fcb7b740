// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"testing"
)

// FuzzSchedulerConfig: a scheduler's configuration is read or refused, whatever it is.
func FuzzSchedulerConfig(f *testing.F) {
	f.Add("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n  - name: PodTopologySpread\n    args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}\n")
	f.Fuzz(func(_ *testing.T, s string) { _, _ = ReadSchedulerConfig("f", []byte(s)) })
}

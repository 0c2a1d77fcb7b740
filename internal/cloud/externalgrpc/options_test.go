// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/externalgrpctest"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/protocol"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestOptions: what a server says of a group's options is in the status of the class; what it leaves out, says as zero, or says wrongly is not.
func TestOptions(t *testing.T) {
	type options = protocol.NodeGroupAutoscalingOptions
	for name, c := range map[string]struct {
		told    map[string]*options // by group; nil: not implemented
		want    string              // status.groups[0].options, JSON
		problem string
	}{
		"not implemented":          {nil, `null`, ""},
		"the defaults come back":   {map[string]*options{}, `null`, ""},
		"zeros":                    {map[string]*options{"small-a-on-demand": {}}, `null`, ""},
		"all":                      {map[string]*options{"small-a-on-demand": {ScaleDownUtilizationThreshold: 0.7, ScaleDownGpuUtilizationThreshold: 0.3, ScaleDownUnreadyDuration: durationpb.New(time.Hour), MaxNodeProvisionDuration: durationpb.New(20 * time.Minute), IgnoreDaemonSetsUtilization: true}}, `{"utilizationThresholdPercent":70,"gpuUtilizationThresholdPercent":30,"ignoreDaemonSetsUtilization":true,"unreadyTime":"1h0m0s","maxNodeProvisionTime":"20m0s"}`, ""},
		"as before 1.35":           {map[string]*options{"small-a-on-demand": {MaxNodeProvisionTime: &protocol.OldDuration{Duration: int64(time.Hour)}}}, `{"maxNodeProvisionTime":"1h0m0s"}`, ""},
		"nonsense":                 {map[string]*options{"small-a-on-demand": {ScaleDownUtilizationThreshold: math.NaN(), ScaleDownGpuUtilizationThreshold: 7, ScaleDownUnreadyDuration: durationpb.New(-time.Hour)}}, `null`, ""},
		"only all at once or none": {map[string]*options{"small-a-on-demand": {ZeroOrMaxNodeScaling: true}}, `null`, "zeroOrMaxNodeScaling"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &externalgrpctest.Server{Options: c.told}
			s.AddGroup("small", "a", model.OnDemand, 2, 0.1)
			p := newWorld(t, s).provider()
			have, err := p.ClassStatus(t.Context(), class(all))
			if err != nil {
				t.Fatal(err)
			}
			var status dovetailv1alpha1.NodeGroupClassStatus
			if err := json.Unmarshal(have.Status, &status); err != nil || len(status.Groups) != 1 {
				t.Fatalf("%v: %s", err, have.Status)
			}
			if text, _ := json.Marshal(status.Groups[0].Options); string(text) != c.want {
				t.Errorf("have the options %s, want %s", text, c.want)
			}
			if p := status.Groups[0].Problem; !strings.Contains(p, c.problem) || (c.problem == "") != (p == "") {
				t.Errorf("have the problem %q, want %q", p, c.problem)
			}
			if _, err := p.Offerings(t.Context(), nil, class(all)); c.problem != "" && cloud.KindOf(err) != cloud.NotReady {
				t.Errorf("have %v, want a class that is not ready", err)
			}
		})
	}
}

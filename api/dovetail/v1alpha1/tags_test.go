// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	"fmt"
	"strings"
	"testing"
)

// TestReadTags: what each kind of tag comes to, and what is said of those that can't be read.
func TestReadTags(t *testing.T) {
	const label, taint, res, option = TagNodeTemplateLabel, TagNodeTemplateTaint, TagNodeTemplateResource, TagNodeTemplateOption
	got := ReadTags(map[string]string{
		TagEnabled: "true", "Name": "workers", "team": "a",
		label + "topology.ebs.csi.aws.com/zone": "us-east-1a", label + "empty": "",
		taint + "dedicated": "gpu:NoSchedule", taint + "bare": ":NoExecute", taint + "colons": "a:b:PreferNoSchedule",
		taint + "wrong": "gpu:Never", taint + "short": "gpu", taint + "blank": "a b:NoSchedule", taint + "two words": "a:NoSchedule",
		res + "exponent": "1e3", res + "huge": "5Ei", res + "ephemeral-storage": "100Gi", res + "nvidia.com/gpu": "4", res + "lots": "many",
		option + OptionUtilizationThreshold: "0.65", option + OptionGPUUtilizationThreshold: "65", option + OptionUnneededTime: "90s",
		option + OptionUnreadyTime: "-1m", option + OptionProvisionTime: "20m", option + OptionIgnoreDaemonSets: "yes", option + "scaledownmood": "good",
	})
	var b strings.Builder
	fmt.Fprintln(&b, "labels", got.Labels)
	for _, x := range got.Taints {
		fmt.Fprintln(&b, "taint", x.ToString())
	}
	gpu, storage := got.Resources["nvidia.com/gpu"], got.Resources["ephemeral-storage"]
	fmt.Fprintln(&b, "resources", len(got.Resources), gpu.String(), storage.String())
	fmt.Fprintln(&b, "threshold", *got.UtilizationThresholdPercent, got.GPUUtilizationThresholdPercent, "unneeded", *got.UnneededTime,
		"unready", got.UnreadyTime, "provision", *got.ProvisionTime, "daemons", got.IgnoreDaemonSetsUtilization)
	for _, p := range got.Problems {
		fmt.Fprintln(&b, strings.ReplaceAll(p.String(), "k8s.io/cluster-autoscaler/node-template/", "…/"))
	}
	const want = `labels map[empty: topology.ebs.csi.aws.com/zone:us-east-1a]
taint bare:NoExecute
taint dedicated=gpu:NoSchedule
resources 3 4 100Gi
threshold 65 <nil> unneeded 1m30s unready <nil> provision 20m0s daemons <nil>
tag …/autoscaling-options/ignoredaemonsetsutilization="yes": need true or false
tag …/autoscaling-options/scaledowngpuutilizationthreshold="65": need a share between 0 and 1 such as 0.5
tag …/autoscaling-options/scaledownmood="good": there is no such option; it has no effect
tag …/autoscaling-options/scaledownunreadytime="-1m": need a duration such as 10m
tag …/resources/huge="5Ei": need a quantity of at most 1Pi, such as 4 or 100Gi
tag …/resources/lots="many": need a quantity such as 4 or 100Gi
tag …/taint/blank="a b:NoSchedule": need value:effect with a value of letters, digits, '-', '_' and '.', such as true:NoSchedule
tag …/taint/colons="a:b:PreferNoSchedule": need value:effect with a value of letters, digits, '-', '_' and '.', such as true:NoSchedule
tag …/taint/short="gpu": need value:effect with the effect NoSchedule, NoExecute or PreferNoSchedule, such as true:NoSchedule
tag …/taint/two words="a:NoSchedule": need a taint's key behind …/taint/, such as dedicated or example.com/dedicated
tag …/taint/wrong="gpu:Never": need value:effect with the effect NoSchedule, NoExecute or PreferNoSchedule, such as true:NoSchedule
`
	if b.String() != want {
		t.Errorf("have\n%s\nwant\n%s", b.String(), want)
	}
}

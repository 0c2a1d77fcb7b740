// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"context"
	"strings"
	"testing"
)

// Which groups a Cluster Autoscaler scales is read from its command line, in every form that a flag may have; where it
// can't be told, that is said.
func TestScaledByFlags(t *testing.T) {
	tags := map[string]string{"k8s.io/cluster-autoscaler/enabled": "true", "k8s.io/cluster-autoscaler/c1": "owned"}
	for name, x := range map[string]struct {
		words []string
		says  string // empty: it does not scale the group
		mend  string
	}{
		"no flag":                      {[]string{"./cluster-autoscaler", "--v=4"}, "", ""},
		"by its name":                  {[]string{"--nodes=1:5:web"}, "scales group web by --nodes=1:5:web", "remove --nodes=1:5:web: kubectl -n ns edit deployment ca"},
		"two words, one dash":          {[]string{"-nodes", "1:5:web"}, "by --nodes=1:5:web", "remove --nodes=1:5:web"},
		"another group's name":         {[]string{"--nodes=1:5:webs"}, "", ""},
		"by a tag":                     {[]string{"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled"}, "by tag k8s.io/cluster-autoscaler/enabled", "aws autoscaling delete-tags --tags ResourceId=web,ResourceType=auto-scaling-group,Key=k8s.io/cluster-autoscaler/enabled"},
		"underscores":                  {[]string{"--node_group_auto_discovery=asg:tag=k8s.io/cluster-autoscaler/enabled"}, "by tag", "delete-tags"},
		"by all of its tags":           {[]string{"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/c1"}, "by tag k8s.io/cluster-autoscaler/c1", "delete-tags"},
		"not by all":                   {[]string{"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/c2"}, "", ""},
		"another value":                {[]string{"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/c1=shared"}, "", ""},
		"a variable":                   {[]string{"--nodes=$(WEB)"}, "scales group web: its --nodes=$(WEB) can't be read", "write the value of the flag into the manifest: kubectl -n ns edit deployment ca"},
		"Cluster API, no flag":         {[]string{"--cloud-provider=clusterapi"}, "scales group web: it discovers all groups of the Cluster", "kubectl -n ns scale deployment ca --replicas=0"},
		"Cluster API, this Cluster":    {[]string{"--node-group-auto-discovery=clusterapi:namespace=default,clusterName=workload"}, "it discovers all groups of the Cluster", "LABEL=VALUE"},
		"Cluster API, another Cluster": {[]string{"--node-group-auto-discovery=clusterapi:clusterName=other"}, "", ""},
		"Cluster API, namespace":       {[]string{"--node-group-auto-discovery=clusterapi:namespace=other"}, "", ""},
		"Cluster API, a label":         {[]string{"--node-group-auto-discovery=clusterapi:clusterName=workload,k8s.io/cluster-autoscaler/c1=owned"}, "it discovers the group by label k8s.io/cluster-autoscaler/c1", "kubectl -n default label machinesets web k8s.io/cluster-autoscaler/c1- (in the management cluster)"},
		"Cluster API, another label":   {[]string{"--node-group-auto-discovery=clusterapi:scaled=yes"}, "", ""},
		"Cluster API, a variable":      {[]string{"--node-group-auto-discovery=$(GROUPS)"}, "can't be read", "write the value"},
	} {
		r := runningAutoscaler{namespace: "ns", name: "ca", nodes: map[string]string{}}
		terms := AWSTerms()
		if strings.HasPrefix(name, "Cluster API") {
			terms = ClusterAPITerms("default", "workload", false, func(context.Context, string) string { return "machinesets" })
		}
		r.readFlags(x.words, &terms)
		f := r.scales(t.Context(), "web", tags, &terms)
		switch {
		case x.says == "" && f != nil:
			t.Errorf("%s: %+v, want nothing", name, *f)
		case x.says == "":
		case f == nil:
			t.Errorf("%s: nothing is found, want %q", name, x.says)
		case f.OK || !strings.Contains(f.Text, x.says) || !strings.Contains(f.Mend, x.mend):
			t.Errorf("%s: %+v, want %q, mended by %q", name, *f, x.says, x.mend)
		}
	}
}

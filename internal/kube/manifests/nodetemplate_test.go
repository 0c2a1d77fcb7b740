// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"strings"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// In files a Provisioner and its AWSNodeTemplate become a NodePool and its EC2NodeClass, and an AWSNodeTemplate that can't be one is an
// error that names it.
func TestNodeTemplateInFiles(t *testing.T) {
	m, err := Read("input", []byte(`
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec: {providerRef: {name: mine}}
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: mine}
spec: {subnetSelector: {a: b}, securityGroupSelector: {a: b}}
`))
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	m.Feed(s)
	pools := s.Snapshot(time.Time{}).Pools
	if len(pools) != 1 || pools[0].ClassKind != awsv1.KindEC2NodeClass || s.Pools.FindNodeClass(awsv1.Group, awsv1.KindEC2NodeClass, pools[0].ClassName) == nil {
		t.Fatalf("pools %+v, want one of EC2NodeClass mine, which is there", pools)
	}
	_, err = Read("input", []byte(`{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: mine}, spec: {subnetSelector: {a: b}}}`))
	if err == nil || !strings.Contains(err.Error(), "mine") || !strings.Contains(err.Error(), "securityGroupSelector") {
		t.Fatalf("error %v, want one that names the object and the field", err)
	}
}

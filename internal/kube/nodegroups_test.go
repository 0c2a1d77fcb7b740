// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
)

// TestGroupOptionsRefused: what the options of a NodeGroupClass may not say the API server refuses, with the field and what to do.
func TestGroupOptionsRefused(t *testing.T) {
	newPlane(t)
	for _, c := range []struct{ options, field, says string }{
		{`{"eviction":{"maxGracePeriod":"10m","drainPriorities":[{"priority":0,"gracePeriod":"1m"}]}}`, "spec.options.eviction", "use gracePeriod of each drain priority"},
		{`{"eviction":{"drainPriorities":[{"priority":5,"gracePeriod":"1m"},{"priority":5,"gracePeriod":"2m"}]}}`, "spec.options.eviction.drainPriorities", "each priority can be given once"},
		{`{"eviction":{"drainPriorities":[{"priority":5,"gracePeriod":"0s"}]}}`, "spec.options.eviction.drainPriorities[0].gracePeriod", "1s or more"},
		{`{"delayAfterTaint":"6m"}`, "spec.options.delayAfterTaint", "5m or less"},
		{`{"delayAfterDelete":"a while"}`, "spec.options.delayAfterDelete", "should match"},
		{`{"eviction":{"drainPriorities":[{"priority":5,"gracePeriod":"90s"}]},"delayAfterTaint":"5m","deletionDelayTimeout":"0s","delayAfterFailure":"1h30m0s"}`, "", ""},
	} {
		err := kubetest.Kubectl(fmt.Appendf(nil, `{"apiVersion":"dovetail.sh/v1alpha1","kind":"NodeGroupClass","metadata":{"name":"refused"},"spec":{"selectorTerms":[{"name":"a"}],"options":%s}}`, c.options),
			"create", "--dry-run=server", "-f", "-")
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", c.options, err)
		case c.field != "" && (err == nil || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: got %v, want one that names %s and says %q", c.options, err, c.field, c.says)
		}
	}
}

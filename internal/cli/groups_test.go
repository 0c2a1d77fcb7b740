// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
)

// TestGroupDefaults: which expanders are asked for, and where their priorities are; what says nothing of a group is refused.
func TestGroupDefaults(t *testing.T) {
	for defaults, want := range map[string]struct{ ranks, expanders, err string }{
		"":                       {expanders: "price"},
		"--expander=least-waste": {expanders: "least-waste"},
		"--expander=priority":    {ranks: "kube-system", expanders: "priority"},
		"--expander=priority,most-pods --scale-down-unneeded-time=5m --namespace=scaling": {ranks: "scaling", expanders: "priority most-pods"},
		"--namespace=scaling": {err: "--namespace is not an option of node groups"},
		"--scan-interval=10s": {err: "--scan-interval is not an option of node groups"},
		"--expander=cheapest": {err: `unknown expander "cheapest"`},
	} {
		f := &groupFlags{}
		f.add(pflag.NewFlagSet("controller", pflag.ContinueOnError))
		f.nodes, f.defaults = []string{"1:2:web"}, defaults
		d, err := f.read(func(string) string { return "" })
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%q: %v, want %s", defaults, err, want.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", defaults, err)
			continue
		}
		var expanders []dovetailv1alpha1.Expander
		for _, e := range strings.Fields(want.expanders) {
			expanders = append(expanders, dovetailv1alpha1.Expander(e))
		}
		if d.ranks != want.ranks || !slices.Equal(d.settings.Expanders, expanders) {
			t.Errorf("%q: priorities in %q, expanders %v; want %q, %v", defaults, d.ranks, d.settings.Expanders, want.ranks, expanders)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package freeze

import (
	"encoding/json"
	"testing"
	"time"
)

// TestFreezeAndUndo: what Freeze adds is removed exactly, whatever was changed in between, and other budgets stay as they are.
func TestFreezeAndUndo(t *testing.T) {
	now := time.Date(2026, 11, 30, 13, 24, 30, 0, time.UTC)
	for _, c := range []struct {
		name, pool string
		steps      []change
		edit       func(object)
		want, said string
	}{
		{"adds a window that ends at a full minute", `{"spec":{"disruption":{"budgets":[{"nodes":"10%"}]}}}`, []change{freezing(now, 2*time.Hour)}, nil,
			`{"metadata":{"annotations":{"dovetail.sh/freeze":"{\"duration\":\"2h1m\",\"nodes\":\"0\",\"schedule\":\"24 13 30 11 *\"}"}},` +
				`"spec":{"disruption":{"budgets":[{"duration":"2h1m","nodes":"0","schedule":"24 13 30 11 *"},{"nodes":"10%"}]}}}`, "frozen until 2026-11-30 15:25 UTC"},
		{"a second freeze replaces the first", `{"spec":{"disruption":{"budgets":[{"nodes":"1"}]}}}`, []change{freezing(now, time.Hour), freezing(now, 0)}, nil,
			`{"metadata":{"annotations":{"dovetail.sh/freeze":"{\"nodes\":\"0\"}"}},"spec":{"disruption":{"budgets":[{"nodes":"0"},{"nodes":"1"}]}}}`, "frozen until 'dovetail freeze --undo'"},
		{"undo keeps fields that are not known", `{"spec":{"disruption":{"budgets":[{"nodes":"0","new":1},{"nodes":"5%"}],"consolidateAfter":"1m"}}}`, []change{freezing(now, time.Hour), undoing}, nil,
			`{"metadata":{"annotations":{}},"spec":{"disruption":{"budgets":[{"new":1,"nodes":"0"},{"nodes":"5%"}],"consolidateAfter":"1m"}}}`, "no longer frozen"},
		{"undo removes one of two that are equal", `{"spec":{"disruption":{"budgets":[{"nodes":"0"}]}}}`, []change{freezing(now, 0), undoing}, nil,
			`{"metadata":{"annotations":{}},"spec":{"disruption":{"budgets":[{"nodes":"0"}]}}}`, "no longer frozen"},
		{"the budget was removed by hand", `{"spec":{}}`, []change{freezing(now, time.Hour), undoing}, func(p object) { p["spec"] = object{"disruption": object{"budgets": []any{object{"nodes": "3"}}}} },
			`{"metadata":{"annotations":{}},"spec":{"disruption":{"budgets":[{"nodes":"3"}]}}}`, "no longer frozen: its budget had already been removed"},
		{"a NodePool without budgets has none afterwards", `{"spec":{}}`, []change{freezing(now, time.Hour), undoing}, nil,
			`{"metadata":{"annotations":{}},"spec":{"disruption":{"budgets":[]}}}`, "no longer frozen"},
		{"a NodePool that was not frozen is unchanged", `{"spec":{"disruption":{"budgets":[{"nodes":"0"}]}}}`, []change{undoing}, nil,
			`{"spec":{"disruption":{"budgets":[{"nodes":"0"}]}}}`, "unchanged: 'dovetail freeze' added no budget"},
		{"a NodePool of a discovered node group is left alone", `{"metadata":{"labels":{"dovetail.sh/discovered":"true"}}}`, []change{freezing(now, 0)}, nil,
			`{"metadata":{"labels":{"dovetail.sh/discovered":"true"}}}`, "not frozen: Dovetail writes the NodePools of discovered node groups. Stop the controller instead"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pool object
			if err := json.Unmarshal([]byte(c.pool), &pool); err != nil {
				t.Fatal(err)
			}
			said := ""
			for i, step := range c.steps {
				if i == 1 && c.edit != nil {
					c.edit(pool)
				}
				var err error
				if said, _, err = step(pool); err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(pool) // as from the API server
				if err != nil {
					t.Fatal(err)
				}
				pool = nil
				if err := json.Unmarshal(text, &pool); err != nil {
					t.Fatal(err)
				}
			}
			have, err := json.Marshal(pool)
			if err != nil {
				t.Fatal(err)
			}
			if string(have) != c.want || said != c.said {
				t.Errorf("have %s\n     %s\nwant %s\n     %s", said, have, c.said, c.want)
			}
		})
	}
}

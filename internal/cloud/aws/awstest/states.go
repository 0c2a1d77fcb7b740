// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"slices"
	"time"
)

// states are those that EventBridge tells of, in the order in which an instance has them.
var states = []string{"pending", "running", "shutting-down", "terminated"}

// tellStates puts a state-change notification into the queue for every state that an instance has reached since it was last told of: the
// rule that Karpenter's installation guide makes takes those of every instance, whoever started or ended it. It is called when somebody looks
// into the queue, and returns when the next state will be reached, as far as that is known; zero: nobody knows.
func (t *tx) tellStates() (next time.Time) {
	for _, told := range t.told.sorted() {
		i, m := t.instances.items[told.ID], t.m.Instance(told.ID)
		if m == nil { // it ended long ago
			t.told.drop(t, told.ID)
			continue
		}
		at := map[string]time.Time{"pending": m.Launched, "shutting-down": m.Terminated}
		if m.Terminated.IsZero() || i.Runs.Before(m.Terminated) {
			at["running"] = i.Runs
		}
		now := t.state(i).Name
		if now == "terminated" {
			at[now] = t.now
		}
		reached := slices.Index(states, now)
		for _, state := range states[slices.Index(states, told.State)+1 : reached+1] {
			if when := at[state]; !when.IsZero() && t.now.Before(when.Add(retention)) {
				t.notifyAt(when, "aws.ec2", "EC2 Instance State-change Notification", []string{t.arn("ec2", "instance/"+i.ID)}, stateDetail{i.ID, state})
			}
		}
		switch {
		case now == "terminated":
			t.told.drop(t, i.ID)
		case now != told.State:
			t.told.put(t, i.ID, toldState{i.ID, now})
		}
		if now == "pending" && (next.IsZero() || i.Runs.Before(next)) {
			next = i.Runs
		}
	}
	return next
}

// Moved implements simulated.Guest. It wakes callers that wait for a message.
func (c *Cloud) Moved(string) { c.ring() }

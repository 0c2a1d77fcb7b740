// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

// lasts is for how many seconds fewer replicas must be wanted until that counts for good. A pod that is evicted, or restarted by a StatefulSet, is
// wanted again when its grace period is over.
const lasts = 900

// share is the part of the removed nodes that a workload's pods took.
type share struct {
	Workload string `json:"workload,omitempty"`
	Weight   int64  `json:"weight"`          // its part times the on-demand price of the nodes
	Replicas int    `json:"replicas"`        // that it wanted then
	Left     int64  `json:"left"`            // the fewest since that have lasted, in millionths of these
	Now      int64  `json:"now"`             // those now, at most Left
	Since    int64  `json:"since,omitempty"` // there are fewer than Left since then; 0: there are not
	Most     int64  `json:"most,omitempty"`  // since Since
}

// note takes in how many replicas are wanted from now on.
func (s *share) note(replicas int, now int64) {
	s.Now = min(s.Left, whole*int64(replicas)/int64(max(1, s.Replicas)))
	switch {
	case s.Now == s.Left:
		s.Since, s.Most = 0, 0
	case s.Since == 0:
		s.Since, s.Most = now, s.Now
	default:
		s.Most = max(s.Most, s.Now)
	}
}

// settle takes in that the replicas were those noted last until now.
func (s *share) settle(now int64) {
	for s.Since != 0 && s.Since+lasts <= now {
		s.Left, s.Since = s.Most, s.Since+lasts
		if s.Most = s.Now; s.Now >= s.Left {
			s.Since, s.Most = 0, 0
		}
	}
}

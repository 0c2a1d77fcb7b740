// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// DesiredCapacityRaised returns when, by the journal of the simulated AWS, the desired capacity of a group was first raised after an instant.
func (s *Sandbox) DesiredCapacityRaised(ctx context.Context, after time.Time) (time.Time, error) {
	records, err := s.Journal(ctx)
	if err != nil {
		return time.Time{}, err
	}
	desired := map[string]int{}
	for _, rec := range records {
		var note struct {
			Kind, Key string
			Value     struct{ Desired int }
		}
		if len(rec.Data) == 0 {
			continue
		}
		if err := json.Unmarshal(rec.Data, &note); err != nil {
			return time.Time{}, fmt.Errorf("read the journal: %w", err)
		}
		if note.Kind != "group" {
			continue
		}
		if rec.At.After(after) && note.Value.Desired > desired[note.Key] {
			return rec.At, nil
		}
		desired[note.Key] = note.Value.Desired
	}
	return time.Time{}, errors.New("the desired capacity of no group was raised")
}

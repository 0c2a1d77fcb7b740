// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"log/slog"
	"time"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// devicesEvery is how often it is looked whether devices were learned that are not kept yet.
const devicesEvery = 10 * time.Second

// recallLimit is how long reading what was learned may take.
const recallLimit = 10 * time.Second

// RecallDevices restores the devices of instance types recorded by an earlier process, before the first decision.
// Devices retries if it fails.
func RecallDevices(ctx context.Context, c *client.Client, kept *Kept, t *translate.Translator, emit func(state.Change)) error {
	d := c.Seen.Devices
	if d == nil {
		return nil // the API server has no devices
	}
	ctx, cancel := context.WithTimeout(ctx, recallLimit)
	defer cancel()
	text, err := kept.Load(ctx)
	if err != nil {
		return err
	}
	if err := d.Recall(text); err != nil {
		return err
	}
	emit(func(s *state.State) { s.Pools.SetDevices(t.DevicesOfTypes(d)) })
	return nil
}

// Devices restores the recorded devices of instance types, and stores new records until the context ends.
func Devices(ctx context.Context, c *client.Client, kept *Kept, log *slog.Logger) {
	d := c.Seen.Devices
	if d == nil {
		return // the API server has no devices
	}
	tick := time.NewTicker(devicesEvery)
	defer tick.Stop()
	last, loaded, leftOut := "", false, 0
	for {
		var err error
		if !loaded {
			if last, err = kept.Load(ctx); err == nil {
				loaded = true
				if err = d.Recall(last); err != nil {
					log.Warn("learned devices of instance types can't be read and are learned again", "error", err.Error())
				}
			}
		}
		if loaded {
			var text string
			var left int
			text, left, err = d.Learned()
			if left > 0 && leftOut == 0 {
				log.Warn("learned devices of some instance types exceed the storage limit and must be learned again after a restart", "kinds", left)
			}
			if leftOut = left; err == nil && text != last {
				if err = kept.Store(ctx, text); err == nil {
					last = text
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("learned devices of instance types were not read or saved, trying again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

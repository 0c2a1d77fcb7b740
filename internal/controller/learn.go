// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// learned is what a node of a type and image turned out to have.
type learned struct{ instanceType, image string }

// teachProvider tells a provider that wants to know how much memory its machines' nodes have: for each type and image the least that was
// seen, and only when that is news.
func (c *Controller) teachProvider(ctx context.Context, snap *model.Snapshot) {
	p, ok := cloud.As[cloud.Learner](c.Provider)
	if !ok || c.learning {
		return
	}
	claims := make(map[string]*model.Claim, len(snap.Claims))
	for _, cl := range snap.Claims {
		if cl.ProviderID != "" && cl.ImageID != "" {
			claims[cl.ProviderID] = cl
		}
	}
	least := map[learned]int64{}
	for _, n := range snap.Nodes {
		cl, bytes := claims[n.ProviderID], n.Capacity.At(model.Memory)
		if cl == nil || bytes <= 0 {
			continue
		}
		k := learned{cl.Labels[model.LabelInstanceType], cl.ImageID}
		if have, ok := least[k]; !ok || bytes < have {
			least[k] = bytes
		}
	}
	maps.DeleteFunc(least, func(k learned, bytes int64) bool {
		have, ok := c.taught[k]
		return ok && have <= bytes
	})
	if len(least) == 0 {
		return
	}
	c.learning = true
	keys := slices.SortedFunc(maps.Keys(least), func(a, b learned) int {
		return cmp.Or(strings.Compare(a.instanceType, b.instanceType), strings.Compare(a.image, b.image))
	})
	go func() {
		ctx, cancel := context.WithTimeout(ctx, c.Config.CallLimit)
		defer cancel()
		taught := map[learned]int64{}
		for _, k := range keys {
			if err := p.Learn(ctx, k.instanceType, k.image, least[k]); err != nil {
				c.Log.Warn("what was learned of nodes' memory was not kept, will repeat", "instanceType", k.instanceType, "image", k.image, "error", err.Error())
				break
			}
			taught[k] = least[k]
		}
		c.Emit(func(*state.State) {
			c.learning = false
			maps.Copy(c.taught, taught)
			if len(taught) > 0 {
				for _, p := range c.pools { // what they can buy has changed
					p.due, p.again = time.Time{}, p.asking
				}
			}
		})
	}()
}

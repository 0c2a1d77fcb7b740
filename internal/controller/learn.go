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

// capacityTeacher tells the provider what nodes turned out to have. Only the loop uses it.
type capacityTeacher struct {
	*edges
	offerings *offerings

	taught map[learned]int64 // what the provider was told
	asking bool              // it is being told
}

// teachProvider tells a provider that wants to know how much memory its machines' nodes have: for each type and image the least that was
// seen, and only when that is news.
func (ct *capacityTeacher) teachProvider(ctx context.Context, snap *model.Snapshot) {
	p, ok := cloud.As[cloud.Learner](ct.provider)
	if !ok || ct.asking {
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
		have, ok := ct.taught[k]
		return ok && have <= bytes
	})
	if len(least) == 0 {
		return
	}
	ct.asking = true
	keys := slices.SortedFunc(maps.Keys(least), func(a, b learned) int {
		return cmp.Or(strings.Compare(a.instanceType, b.instanceType), strings.Compare(a.image, b.image))
	})
	go func() {
		ctx, cancel := context.WithTimeout(ctx, ct.config.CallLimit)
		defer cancel()
		taught := map[learned]int64{}
		for _, k := range keys {
			if err := p.Learn(ctx, k.instanceType, k.image, least[k]); err != nil {
				ct.log.Warn("the measured memory of nodes was not saved, trying again", "instanceType", k.instanceType, "image", k.image, "error", err.Error())
				break
			}
			taught[k] = least[k]
		}
		ct.emit(func(*state.State) {
			ct.asking = false
			maps.Copy(ct.taught, taught)
			if len(taught) > 0 {
				for _, p := range ct.offerings.byPool { // what they can buy has changed
					p.due, p.again = time.Time{}, p.asking
				}
			}
		})
	}()
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"sync"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// offeringCache remembers what was made of each class, so that the same comes out as long as nothing has changed.
type offeringCache struct {
	mu   sync.Mutex
	sets map[string]*offeringSet // by class name
}

func newOfferingCache() *offeringCache { return &offeringCache{sets: map[string]*offeringSet{}} }

// get is the set that was kept under a key, if it was built from the same; nil: there is none.
func (c *offeringCache) get(key, builtFrom string) *offeringSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.sets[key]; have != nil && have.builtFrom == builtFrom {
		return have
	}
	return nil
}

// put keeps a set. It returns the one to use: another that somebody has kept meanwhile, if it was built from the same.
func (c *offeringCache) put(key string, made *offeringSet) *offeringSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.sets[key]; have != nil && have.builtFrom == made.builtFrom {
		return have
	}
	c.sets[key] = made
	return made
}

type offeringSet struct {
	builtFrom string // all that it depends on
	types     []*model.InstanceType
	byName    map[string]*offeredType
}

// offeredType is a type as a class buys it.
type offeredType struct {
	*typeInfo
	imageID      string // what it boots from; empty: not known
	instanceType *model.InstanceType
	maxPods      int64
}

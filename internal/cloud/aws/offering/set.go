// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package offering

import (
	"sync"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Cache remembers what was made of each class, so that the same comes out as long as nothing has changed.
type Cache struct {
	mu   sync.Mutex
	sets map[string]*Set // by class name
}

func NewCache() *Cache { return &Cache{sets: map[string]*Set{}} }

// Get is the set that was kept under a key, if it was built from the same; nil: there is none.
func (c *Cache) Get(key, builtFrom string) *Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.sets[key]; have != nil && have.BuiltFrom == builtFrom {
		return have
	}
	return nil
}

// Put keeps a set. It returns the one to use: another that somebody has kept meanwhile, if it was built from the same.
func (c *Cache) Put(key string, made *Set) *Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.sets[key]; have != nil && have.BuiltFrom == made.BuiltFrom {
		return have
	}
	c.sets[key] = made
	return made
}

type Set struct {
	BuiltFrom string // all that it depends on
	Types     []*model.InstanceType
	ByName    map[string]*Type
}

// Type is a type as a class buys it.
type Type struct {
	*catalogue.TypeInfo
	ImageID      string // what it boots from; empty: not known
	InstanceType *model.InstanceType
	MaxPods      int64
}

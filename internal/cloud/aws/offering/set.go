// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package offering

import (
	"sync"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Cache remembers the last set that was built under each key, so that the same comes out as long as nothing has
// changed.
type Cache struct {
	mu   sync.Mutex
	sets map[string]*Set // by class name
}

// NewCache makes a Cache that has no set.
func NewCache() *Cache { return &Cache{sets: map[string]*Set{}} }

// Get is the set that was put under a key, if it was built from this; nil: there is none.
func (c *Cache) Get(key, builtFrom string) *Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.sets[key]; have != nil && have.BuiltFrom == builtFrom {
		return have
	}
	return nil
}

// Put keeps a set under a key. It returns the one to use: another that was put meanwhile, if that was built from the
// same.
func (c *Cache) Put(key string, made *Set) *Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.sets[key]; have != nil && have.BuiltFrom == made.BuiltFrom {
		return have
	}
	c.sets[key] = made
	return made
}

// Set is what a node class has to offer. It is not changed once it is in use.
type Set struct {
	BuiltFrom string // all that it depends on
	Types     []*model.InstanceType
	ByName    map[string]*Type
}

// Type is an instance type as nodes of a class will be of it.
type Type struct {
	*catalogue.TypeInfo
	ImageID      string // what it boots from; empty: not known
	InstanceType *model.InstanceType
	Kubelet      *nodeclass.KubeletConfig // as user data configures it
	MaxPods      int64
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package offering

import (
	"sync"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Cache stores the last Set built under each key, so that the same Set is returned while nothing changes.
type Cache struct {
	mu   sync.Mutex
	sets map[string]*Set // by class name
}

// NewCache returns an empty Cache.
func NewCache() *Cache { return &Cache{sets: map[string]*Set{}} }

// Get returns the Set stored under a key if it was built from builtFrom; otherwise nil.
func (c *Cache) Get(key, builtFrom string) *Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.sets[key]; have != nil && have.BuiltFrom == builtFrom {
		return have
	}
	return nil
}

// Put stores a Set under a key. It returns the Set to use: another one stored meanwhile, if it was built from the same
// data.
func (c *Cache) Put(key string, made *Set) *Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.sets[key]; have != nil && have.BuiltFrom == made.BuiltFrom {
		return have
	}
	c.sets[key] = made
	return made
}

// Set are the offerings of a node class. It is read-only.
type Set struct {
	BuiltFrom string // key of all data that it depends on
	Types     []*model.InstanceType
	ByName    map[string]*Type
}

// Type is an instance type with the settings of a node class.
type Type struct {
	*catalogue.TypeInfo
	ImageID      string // AMI; empty: unknown
	InstanceType *model.InstanceType
	Kubelet      *nodeclass.KubeletConfig // configuration in user data
	MaxPods      int64
}

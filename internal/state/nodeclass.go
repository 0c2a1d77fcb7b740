// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// NodeClass is a node class as the API server has it: a provider's own settings for machines. No decision looks into it, so it is
// in no Snapshot; the controller hands it to the provider.
type NodeClass struct {
	Group, Kind, Name, UID string
	Generation             int64
	Version                uint64    // resource version
	Deleting               time.Time // since when; zero: it is not
	HasFinalizer           bool      // its provider's
	Annotations            model.Labels
	Scaling                *model.GroupScaling // NodeGroupClass: how its groups are scaled
	RegistrationDelay      time.Duration       // KWOKNodeClass: how long a machine takes to register
	Spec                   json.RawMessage     // JSON of the object's spec; empty: an empty spec
	Status                 json.RawMessage     // JSON of the object's status without conditions, as its provider writes it; empty: none
	Conditions             map[string]model.Condition
}

func classKey(group, kind, name string) string { return group + "/" + kind + "/" + name }

// SetNodeClass adds or changes a node class.
func (s *State) SetNodeClass(c NodeClass) {
	if s.nodeClasses == nil {
		s.nodeClasses = map[string]*NodeClass{}
	}
	s.nodeClasses[classKey(c.Group, c.Kind, c.Name)] = &c
	s.scale(classKey(c.Group, c.Kind, c.Name), c.Scaling)
	s.saw("class/"+classKey(c.Group, c.Kind, c.Name), c.Version)
}

// scale says of the pools of a node class how they are scaled.
func (s *State) scale(class string, how *model.GroupScaling) {
	for name, old := range s.pools {
		if classKey(old.ClassGroup, old.ClassKind, old.ClassName) != class || reflect.DeepEqual(old.Scaling, how) {
			continue
		}
		q := *old
		q.Scaling = how
		s.pools[name], s.poolsDirty = &q, true
		s.gen.Supply++
	}
}

// DeleteNodeClass forgets a node class.
func (s *State) DeleteNodeClass(group, kind, name string) {
	delete(s.nodeClasses, classKey(group, kind, name))
	s.scale(classKey(group, kind, name), nil)
	s.forgetOf("class/" + classKey(group, kind, name))
}

// NodeClass returns a node class, nil if there is none. It must not be changed.
func (s *State) NodeClass(group, kind, name string) *NodeClass {
	return s.nodeClasses[classKey(group, kind, name)]
}

// NodeClasses returns all node classes by group, kind and name.
func (s *State) NodeClasses() []*NodeClass {
	return sorted(s.nodeClasses, func(a, b *NodeClass) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
}

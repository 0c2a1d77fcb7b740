// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Controllers make, replace and delete pods, as kube-controller-manager does. They are more than Workloads can describe: for example, the
// workloads of a recording.
type Controllers interface {
	// Act is called in each round. It looks at what has changed since the last one.
	Act()
	// PodChanged is told of each change of a pod before it is made; old nil: it is created, new nil: it is gone.
	PodChanged(old, new *model.Pod)
	// MayEvict reports whether PodDisruptionBudgets let a pod be evicted now.
	MayEvict(*model.Pod) bool
	// List hands a controller that begins anew what it would list of ReplicaSets, PodDisruptionBudgets and namespaces.
	List(*state.State)
}

// SetReplicas has a ReplicaSet, by its uid, want so many pods.
func (c *Cluster) SetReplicas(uid string, want int) {
	c.version++
	c.show(watchReplicas, func(s *state.State) { s.SetReplicas(uid, want) })
}

// SetPDB creates a PodDisruptionBudget or writes its status.
func (c *Cluster) SetPDB(b *model.PDB) {
	c.version++
	c.show(watchBudgets, func(s *state.State) { s.SetPDB(b) })
}

// DropPDB deletes a PodDisruptionBudget.
func (c *Cluster) DropPDB(key string) {
	c.version++
	c.show(watchBudgets, func(s *state.State) { s.DeletePDB(key) })
}

// DropPool deletes a NodePool. It is seen at once.
func (c *Cluster) DropPool(name string) {
	for i, p := range c.NodePools {
		if p.Name == name {
			c.NodePools = append(c.NodePools[:i:i], c.NodePools[i+1:]...)
			break
		}
	}
	c.showNow(func(s *state.State) { s.Pools.DeletePool(name) })
}

// At has something happen at an instant.
func (c *Cluster) At(at time.Time, do func()) { c.due.add(at, do) }

// SetNamespace makes a namespace known, with its labels. It is seen at once.
func (c *Cluster) SetNamespace(name string, labels model.Labels) {
	c.showNow(func(s *state.State) { s.SetNamespace(name, labels, time.Time{}) })
}

// ShowDaemon has the controller see a DaemonSet that was added to Daemons, or changed there.
func (c *Cluster) ShowDaemon(d *model.Daemon) {
	c.showNow(func(s *state.State) { s.SetDaemon(d) })
}

// HideDaemon has the controller see that a DaemonSet, by namespace/name, is gone.
func (c *Cluster) HideDaemon(key string) {
	c.showNow(func(s *state.State) { s.DeleteDaemon(key) })
}

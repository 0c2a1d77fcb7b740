// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

// Gang is the set of pods that a pod belongs to and that run together or not at all. The zero value is no gang.
type Gang struct {
	// Name identifies the gang in the cluster: the kind of what declares it, the namespace and a name, separated by slashes.
	Name string

	// Least is how many pods of the gang must have a place before nodes are launched for any of them.
	Least int

	// Staged says that the gang's pods may be created one after the other, as later ones may wait for earlier ones to run: those
	// that exist, at most Least, must have a place together. Otherwise no node is launched before Least pods exist.
	Staged bool

	// LeftToScheduler says that the pods' scheduler binds them together, so that Dovetail binds none of them.
	LeftToScheduler bool
}

// HasGang reports whether a pod belongs to a gang.
func (p *Pod) HasGang() bool { return p.Gang.Name != "" }

// CountsAsEnded reports whether a pod of a gang has ended as it should: it needs no place any more, and none takes its place.
func (p *Pod) CountsAsEnded() bool { return p.HasGang() && p.Terminal && !p.Failed }

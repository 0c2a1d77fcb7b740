// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// SetPod adds or changes a pod. Its Class is interned. A pod that is terminal, or being deleted and not bound, is no
// demand.
func (s *State) SetPod(p *model.Pod) {
	q := *p
	q.Class = s.internClass(p.Class)
	s.noteResize(&q, s.pods.byKey[q.Key()])
	if since := s.namespaces.ending[q.Namespace]; !since.IsZero() && endsWithNamespace(&q) {
		q.Deleting, q.EndsWithNamespace = since, true
	}
	s.Overlay.coverPod(&q)
	s.pods.setPod(&q, s.now)
	s.daemons.setPod(&q)
	s.Overlay.endSeenActions(&q)
}

// DeletePod forgets a pod by namespace/name.
func (s *State) DeletePod(key string) {
	if old := s.pods.deletePod(key, s.now); old != nil {
		s.Overlay.forgetPod(old)
		s.daemons.deletePod(old)
	}
}

// SetReplicas takes in how many pods a ReplicaSet is to have; 0: none, or it makes none.
func (s *State) SetReplicas(uid string, want int) { s.replicaSets.setReplicas(uid, want) }

// SetFailingReplicas takes in which pods a ReplicaSet, by its uid, can't create; nil: none.
func (s *State) SetFailingReplicas(uid string, f *model.FailingReplicas) {
	s.replicaSets.setFailing(uid, f)
}

// SetTemplate takes in the pod template of a controller, by its uid; nil: the controller is gone, or is to have no pods. Superseded is this State's to fill in.
func (s *State) SetTemplate(uid string, t *model.Template) { s.replicaSets.setTemplate(uid, t) }

// SetQuota takes in that a namespace has a ResourceQuota, by namespace/name.
func (s *State) SetQuota(key string) { s.replicaSets.setQuota(key) }

// DeleteQuota forgets a ResourceQuota by namespace/name.
func (s *State) DeleteQuota(key string) { s.replicaSets.deleteQuota(key) }

// SetNode adds or changes a node; Pods, Used and Claim are this State's to fill in.
func (s *State) SetNode(n *model.Node, version uint64) {
	if s.BeforeNode != nil {
		s.BeforeNode(s.nodes.find(n.Name), n)
	}
	s.InFlight.observeVersion(NodeObject(n.Name), version)
	s.Pools.noteAttachLimits(s.nodes.find(n.Name), n)
	s.nodes.setNode(n, s.now)
	s.counts.Supply++
}

// DeleteNode forgets a node by name; its pods stay known as pods of a node not seen.
func (s *State) DeleteNode(name string) {
	s.Pools.noteAttachLimits(s.nodes.find(name), nil)
	if s.nodes.deleteNode(name) {
		s.InFlight.forgetObject(NodeObject(name))
		s.counts.Supply++
	}
}

// SetAttachment adds or changes a volume attached to a node, which may not have been seen yet.
func (s *State) SetAttachment(a model.Attachment, node string) { s.nodes.setAttachment(a, node) }

// DeleteAttachment forgets a volume attached to a node, by the name of its VolumeAttachment.
func (s *State) DeleteAttachment(name string) { s.nodes.deleteAttachment(name) }

// SetClaim adds or changes a NodeClaim.
func (s *State) SetClaim(c *model.Claim, version uint64) {
	if s.BeforeClaim != nil {
		s.BeforeClaim(s.claims.byName[c.Name], c)
	}
	s.InFlight.observeVersion(ClaimObject(c.Name), version)
	s.InFlight.EndAction(createKey(c.Name))
	if !c.Deleting.IsZero() {
		s.InFlight.EndAction(deleteKey(c.UID))
	}
	for _, id := range s.claims.setClaim(s.Overlay.coverClaim(c)) {
		s.nodes.markChangedByProviderID(id)
	}
	if c.Is("Launched") {
		delete(s.failures, c.UID)
	}
	s.counts.Supply++
}

// DeleteClaim forgets a NodeClaim by name.
func (s *State) DeleteClaim(name string) {
	c := s.claims.byName[name]
	if c == nil {
		return
	}
	s.Overlay.forgetClaim(c)
	s.nodes.markChangedByProviderID(s.claims.deleteClaim(c))
	s.InFlight.forgetObject(ClaimObject(name))
	s.InFlight.EndAction(deleteKey(c.UID))
	s.InFlight.EndAction(launchKey(c.UID))
	delete(s.failures, c.UID)
	s.counts.Supply++
}

// RecordLaunchFailure keeps why the launch of a claim failed, by the claim's uid, until it is launched or gone.
func (s *State) RecordLaunchFailure(claim string, f model.LaunchFailure) { s.failures[claim] = f }

// SetInstances replaces the list of machines, as asked for at an instant.
func (s *State) SetInstances(list []*model.Instance, at time.Time) {
	s.instances.endOutage(at)
	s.instances.setInstances(list, at, s.claims.isClaimed)
}

// NoteUnreadInstances records that the cloud, asked at an instant for its machines, has not answered.
func (s *State) NoteUnreadInstances(at time.Time) {
	if s.instances.unread.IsZero() {
		s.instances.unread = at
	}
}

// MarkInstanceGone records that the cloud has said a machine is on its way out. It stays so for as long as there is its
// claim: a list that was asked for before knows no better, and one that does not have the machine any more says the
// same.
func (s *State) MarkInstanceGone(providerID, claimUID string) {
	s.instances.ended[providerID] = ended{claimUID, s.now}
	s.SetInstances(s.instances.list, s.instances.at)
}

// SetDrift replaces what the provider says about machines that are not what their node classes ask for, by claim uid;
// an empty reason: it was asked, and it is.
func (s *State) SetDrift(reasons map[string]string) {
	s.drift = reasons
	s.counts.Supply++
}

// SetZonalShifts replaces the zonal shifts in effect, by zone. read false: they are not known yet.
func (s *State) SetZonalShifts(list []model.ZonalShift, read bool) {
	s.shifts, s.shiftsUnread = list, !read
	s.counts.Supply++
}

// SetDaemon adds or changes a DaemonSet.
func (s *State) SetDaemon(d *model.Daemon) {
	q := *d
	q.Class = s.internClass(d.Class)
	s.daemons.setDaemon(&q)
}

// DeleteDaemon forgets a DaemonSet by namespace/name.
func (s *State) DeleteDaemon(key string) { s.daemons.delete(key) }

// WatchDeployments says that Deployments are looked at from now on.
func (s *State) WatchDeployments() {
	if s.deployments.rows == nil {
		s.deployments.rows, s.deployments.changed = map[string]*model.Deployment{}, true
	}
}

// SetDeployment adds or replaces a Deployment.
func (s *State) SetDeployment(d *model.Deployment) {
	s.WatchDeployments()
	s.deployments.set(d.Key(), d)
}

// DeleteDeployment forgets a Deployment by namespace/name.
func (s *State) DeleteDeployment(key string) { s.deployments.delete(key) }

// SetBuffer adds or changes a CapacityBuffer. The class of its pods is interned.
func (s *State) SetBuffer(b *model.Buffer, version uint64) {
	s.InFlight.observeVersion(BufferObject(b.Key()), version)
	if b.Like != nil {
		like, next := *b.Like, *b
		like.Class = s.internClass(b.Like.Class)
		next.Like, b = &like, &next
	}
	s.buffers.set(b.Key(), b)
}

// DeleteBuffer forgets a CapacityBuffer by namespace/name.
func (s *State) DeleteBuffer(key string) {
	s.buffers.delete(key)
	s.InFlight.forgetObject(BufferObject(key))
}

// SetLimit adds or changes a limit over several pools.
func (s *State) SetLimit(l *model.CapacityLimit) {
	s.limits.set(l.Name, l)
	s.counts.Supply++
}

// SetQuotaLimit adds or changes the limit that a CapacityQuota of this version is. A change of its status alone is no
// news to a decision.
func (s *State) SetQuotaLimit(l *model.CapacityLimit, version uint64) {
	s.InFlight.observeVersion(LimitObject(l.Name), version)
	if was := s.limits.rows[l.Name]; was != nil && was.Quota != nil && was.Quota.UID == l.Quota.UID && was.Quota.Generation == l.Quota.Generation {
		s.limits.set(l.Name, l)
		return
	}
	s.SetLimit(l)
}

// LimitObject names the object of a limit for InFlight.
func LimitObject(name string) Object { return Object(name) }

// DeleteLimit forgets a limit by its name.
func (s *State) DeleteLimit(name string) {
	s.limits.delete(name)
	s.InFlight.forgetObject(LimitObject(name))
	s.counts.Supply++
}

// BufferObject names a CapacityBuffer, given by namespace/name, for InFlight.
func BufferObject(key string) Object { return Object("buffer/" + key) }

// SetPDB adds or changes a PodDisruptionBudget.
func (s *State) SetPDB(p *model.PDB) { s.pdbs.set(p.Key(), p) }

// DeletePDB forgets a PodDisruptionBudget by namespace/name.
func (s *State) DeletePDB(key string) { s.pdbs.delete(key) }

// SetNamespace adds or changes a namespace, which is being deleted since an instant, zero: it is not. Its pods without a node are taken to
// be deleted with it: kube-controller-manager deletes them, and the API server binds none.
func (s *State) SetNamespace(name string, l model.Labels, deleting time.Time) {
	s.namespaces.set(name, l)
	if !s.namespaces.setEnding(name, deleting) {
		return
	}
	var keys []string
	for key, p := range s.pods.byKey {
		if p.Namespace == name && endsWithNamespace(p) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		s.SetPod(s.pods.byKey[key])
	}
}

// endsWithNamespace reports whether a pod is no demand once its namespace is being deleted.
func endsWithNamespace(p *model.Pod) bool { return p.Node == "" && !p.Terminal && p.Deleting.IsZero() }

// DeleteNamespace forgets a namespace.
func (s *State) DeleteNamespace(name string) { s.namespaces.delete(name) }

// mostUnmade is how many refused NodeClaims are remembered.
const mostUnmade = 100

// RecordUnmadeClaim takes note of a NodeClaim that was refused, in place of an earlier one of its name.
func (s *State) RecordUnmadeClaim(u model.UnmadeClaim) {
	list := slices.DeleteFunc(slices.Clone(s.unmade), func(x model.UnmadeClaim) bool { return x.Claim == u.Claim })
	list = append(list, u)
	s.unmade = list[max(0, len(list)-mostUnmade):]
}

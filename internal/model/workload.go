// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

// Deployment is a workload that can be asked to make a pod's successor before the pod goes. They are known only where that has been
// allowed.
type Deployment struct {
	Namespace, Name, UID string
	Surge                string // value of its annotation dovetail.sh/surge
	Replicas             int32
	MaxSurge             int32 // pods it may have above Replicas while it rolls; 0 with strategy Recreate
	Recreate             bool
	Paused               bool
	RestartedAt          string // annotation of its pod template; every pod of that template bears it too
	Rolling              bool   // its pods are not yet all made of its template
}

// Key is namespace/name.
func (d *Deployment) Key() string { return d.Namespace + "/" + d.Name }

// What a workload is restarted and opted in by.
const (
	AnnotationSurge       = "dovetail.sh/surge"
	AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"
)

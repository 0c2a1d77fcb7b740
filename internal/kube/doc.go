// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package kube contains only tests of the packages below it, against a real API server. Those packages are the only
// ones that import client-go. None of them makes decisions or imports a provider.
//
//   - translate converts API objects to values of model, and some of them back; volume is its part for volumes.
//     Neither uses a client.
//   - manifests reads API objects from files, as if from a cluster.
//   - client connects to an API server, and holds objects that were read from it. Only this package builds clients.
//   - watch passes each change of a cluster to state, and reads the views of top and doctor.
//   - write carries out the actions of a plan, and writes Dovetail's own objects.
//   - takeover moves NodePools and node groups from other autoscalers, and back.
//   - inventory lists the supported API fields; kubetest provides tests with an API server.
//
// Start reading at translate.Translator.Pod, then watch.Watch, then write.Actor.
package kube

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package kube holds the tests of the packages below it against a real API server, and no code of its own. Its packages are the
// only ones that know client-go; none of them decides anything, and none imports a provider.
//
//   - translate turns API objects into the nouns of model, and some of them back; volume is its part for volumes. Neither knows a client.
//   - manifests reads API objects from files, as a cluster would have them.
//   - client connects to an API server, and keeps what was seen of it. No other package builds a client.
//   - watch hands every change of a cluster to state, and what top and doctor show to them.
//   - write carries out the actions of a plan, and writes the objects that Dovetail keeps.
//   - takeover hands NodePools and node groups over from other autoscalers, and back.
//   - inventory lists the API fields that are heeded; kubetest gives tests an API server.
//
// Start reading at translate.Translator.Pod, then watch.Watch, then write.Actor.
package kube

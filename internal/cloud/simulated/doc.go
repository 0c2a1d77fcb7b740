// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package simulated is the simulated cloud: it accepts launches and terminations over HTTP, stores them in a durable
// journal, and after a delay creates the Node object that a kubelet would create. The sandbox and tests of providers
// use it; the production binary does not link it. cloud/machines defines its protocol.
//
// It does not decide what to launch, knows NodePools and NodeClaims only as names, and accesses Kubernetes only
// through the caller's NodeMaker.
//
// Model (model.go, names.go, fault.go) is a deterministic state machine: it takes a call and the time, and returns a
// result and journal records. It uses no clock or I/O, and no randomness except a hash of seed and machine ID. Server
// (server.go, http.go, drive.go) serves it; Journal (journal.go) makes it durable. A Guest is another interface to
// the same machines (cloud/aws/awstest), which selects and describes them itself, and stores its other state in the
// same journal.
//
// Invariants:
//
//   - A NodeClaim UID is launched at most once, without a time limit.
//   - A result is in the journal, on disk, before it is returned. The records of one call are stored all or none.
//   - Replaying a journal gives the same Model.
//   - Creation and deletion of a Node are repeated until they succeed, so a terminated machine leaves no Node,
//     whenever the process is killed.
//   - If the journal cannot be written, the server stops, so that memory is never ahead of the disk.
//   - Faults are for tests, and kept in memory only. Their effect on a machine is stored.
//
// Start reading at Model.
package simulated
